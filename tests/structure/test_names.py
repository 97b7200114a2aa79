"""A name means one thing: no type of a header has the name of another's, and a CMake target has the name of its folder."""
import collections
import re

from tree import ROOT, SRC, TreeTest, main
from weight import definitions

TARGET = re.compile(r"kiln_folder\((\w+)\s+SOURCES\s+(.*?)\s+LINK\b", re.S)


class NamesTest(TreeTest):
    def test_no_type_of_a_header_has_the_name_of_another(self):
        headers = collections.defaultdict(set)
        for found in definitions(ROOT):
            if found.kind == "type" and found.path.endswith((".h", ".cuh")):
                headers[found.name].add((found.path, found.scope))  # specializations of a template share both
        self.assertGreater(len(headers), 300)
        self.assert_none([f"{name}: {', '.join(sorted(path for path, _ in places))}"
                          for name, places in sorted(headers.items()) if len(places) > 1], "defined more than once")

    def test_a_target_has_the_name_of_its_folder(self):
        targets = TARGET.findall((SRC / "CMakeLists.txt").read_text(encoding="utf-8"))
        self.assertGreater(len(targets), 30)
        faults = []
        for name, sources in targets:
            inner = {source.rpartition("/")[0] for source in re.findall(r"[\w/]+\.cpp", sources)}
            ends = {folder.rpartition("/")[2] for folder in inner} | {folder.partition("/")[0] for folder in inner}
            if not any(name == end or name.startswith(end + "_") for end in ends):
                faults.append(f"kiln_{name}: {', '.join(sorted(inner))}")
        self.assert_none(faults, "the target is not named like its folder")


if __name__ == "__main__":
    main()
