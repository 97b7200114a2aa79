"""Rules for every source file: listed in a target, limits of length and width, whole subjects, no unfinished code."""
import re
import subprocess
import sys
from collections import Counter, defaultdict

from tree import ROOT, SRC, TreeTest, cpp_files, main, numbered_lines

TESTS = ROOT / "tests"
MAX_LINES, MAX_MAIN_LINES, MAX_COLUMNS = 700, 90, 100
MIN_UNIT_LINES = 60
# Rows of a table, such as codecs, optimizers and commands, have a file each, however short, and no header of their own.
FOLDERS_OF_ROWS = ("cli", "data/image", "data/transform", "model", "report", "tools/", "train/exchange", "train/optimizer")
INCLUDE = re.compile(r'#include "([^"]+)\.h"')
CONDITION = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
DATA = re.compile(r"\.(bin|bmp|gif|gz|jpe?g|onnx|parquet|png|pt|pth|rec|safetensors|so|tar|tiff?|webp|xz|zip)$", re.I)
FOREACH = re.compile(r"foreach\s*\(\s*(\w+)\s+IN\s+ITEMS\s+([^)]*)\)(.*?)endforeach\s*\(\s*\)", re.S)


def cmake_text(path):
    """A CMake file without comments, with foreach loops over items expanded."""
    text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))

    def written_out(loop):
        return "\n".join(loop[3].replace("${%s}" % loop[1], item) for item in loop[2].split())
    return FOREACH.sub(written_out, text)


def listed_files():
    """All existing files named in the CMake files of src/ and tests/."""
    listed = set()
    for cmake in [*ROOT.glob("src/**/CMakeLists.txt"), *ROOT.glob("tests/**/CMakeLists.txt"),
                  *ROOT.glob("src/**/*.cmake"), *ROOT.glob("tests/**/*.cmake")]:
        for word in re.findall(r"[^\s()\";]+", cmake_text(cmake)):
            name = re.sub(r"\$\{CMAKE_CURRENT_(LIST|SOURCE)_DIR\}/", "", word).replace("${CMAKE_SOURCE_DIR}", str(ROOT))
            # Such as the test_*.py of file(GLOB).
            listed.update(cmake.parent.glob(name) if re.match(r"\w+\*", name) else [(cmake.parent / name).resolve()])
    return listed


def places(paths, pattern):
    """`file:line` of every match of `pattern`."""
    return [f"{path.relative_to(ROOT)}:{number}" for path in paths for number, line in numbered_lines(path)
            if pattern.search(line)]


class FilesTest(TreeTest):
    def assert_listed(self, paths):
        paths = list(paths)
        self.assertTrue(paths)
        listed = listed_files()
        self.assert_none([str(path.relative_to(ROOT)) for path in sorted(paths) if path not in listed],
                         "no CMakeLists.txt lists")

    def test_every_source_is_listed(self):
        self.assert_listed(SRC.rglob("*.cpp"))

    def test_every_test_is_listed(self):
        self.assert_listed([*TESTS.rglob("*.cpp"), *TESTS.rglob("test_*.py"), *TESTS.rglob("*_parity.py"),
                            *TESTS.rglob("*.cmake"), *(path.parent for path in TESTS.glob("*/CMakeLists.txt"))])

    def test_files_are_short(self):
        sources = [path for path in SRC.rglob("*") if path.is_file()]
        faults = [f"{path.relative_to(ROOT)}: {count} lines" for path in sorted(sources)
                  if (count := len(list(numbered_lines(path)))) > MAX_LINES]
        self.assert_none(faults, f"longer than {MAX_LINES} lines")
        self.assertLessEqual(len(list(numbered_lines(SRC / "main.cpp"))), MAX_MAIN_LINES)

    # A unit is a header and its source. A short one that has a single user belongs into that user's file.
    def test_short_units_have_two_users(self):
        lines, users = Counter(), defaultdict(set)
        for path in cpp_files(SRC):
            unit = str(path.relative_to(SRC).with_suffix(""))
            for _, line in numbered_lines(path):
                lines[unit] += 1
                if match := INCLUDE.match(line):
                    users[match[1]].add(unit)
        faults = [f"{unit}: {lines[unit]} lines, included by {', '.join(others) or 'nobody'}" for unit in sorted(lines)
                  if lines[unit] < MIN_UNIT_LINES and unit != "main" and len(others := sorted(users[unit] - {unit})) < 2
                  and ((SRC / (unit + ".h")).is_file() or not unit.startswith(FOLDERS_OF_ROWS))]
        self.assert_none(faults, f"shorter than {MIN_UNIT_LINES} lines, with a single user")

    def test_lines_are_narrow(self):
        paths = cpp_files(SRC) + cpp_files(TESTS)
        self.assertGreater(len(paths), 100)
        self.assert_none(places(paths, re.compile(f".{{{MAX_COLUMNS + 1}}}")), f"wider than {MAX_COLUMNS} columns")

    # It takes 15 seconds to compile; the headers of the operators that a file calls take one or two.
    def test_nobody_includes_all_of_libtorch(self):
        self.assert_none(places(cpp_files(SRC) + cpp_files(TESTS), re.compile(r"<(torch/torch|ATen/ATen)\.h>")),
                         "includes all of LibTorch")

    def test_nothing_is_left_unfinished(self):
        paths = [path for folder in (SRC, TESTS) for path in folder.rglob("*")
                 if path.suffix in (".cpp", ".h", ".py", ".sh", ".txt", ".cmake", ".md")]
        self.assert_none(places(paths, UNFINISHED), "left unfinished")

    # What a command wrote into the checkout is added with everything else, and nobody looks at pictures in a change.
    def test_pictures_and_archives_are_where_they_belong(self):
        listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True)
        if listed.returncode != 0:
            self.skipTest("not a git checkout")
        self.assert_none([name for name in listed.stdout.splitlines()
                          if DATA.search(name) and not name.startswith(("docs/", "tests/fuzz/seeds/", "tests/flow/kept/"))],
                         "data outside of docs, tests/fuzz/seeds and tests/flow/kept")

    # A program finds what is beside it first: bench/select.py would be found by all of Python that asks for `select`.
    def test_no_script_is_named_like_a_module_of_python(self):
        self.assert_none([str(path.relative_to(ROOT)) for folder in ("bench", "docs", "environment", "examples", "python", "tests")
                          for path in (ROOT / folder).rglob("*.py") if path.stem in sys.stdlib_module_names],
                         "named like a module of Python's library")

    # Platform differences are handled by separate source files or at run time.
    def test_no_conditional_compilation(self):
        self.assert_none(places(cpp_files(SRC), CONDITION), "preprocessor conditions")


if __name__ == "__main__":
    main()
