"""Names of options as strings stand in cli/, which has their rows: elsewhere a missing or renamed one would be found by no
compiler. What is asked of Settings is a name of cli/settings.h."""
import re

from tree import SRC, TreeTest, cpp_files, main, numbered_lines

ROW = re.compile(r'\b(?:opt|seed_row)\w*\(&[\w:]+,\s*"([a-z0-9-]+)"')
LITERAL = re.compile(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"')  # names of one word are words of other things, too
ASKED = re.compile(r'\b(?:of|text|is_given|found|with)\("')
# Those that write command lines, read the options of a record, or are a table that cli/ reads.
MAY_NAME = ("cli/", "record/", "report/", "tools/sagemaker/", "tools/tune/", "train/exchange/catalogue.h")
OTHER_WORDS = {"time-limit": "run/stop.cpp", "group-by": "data/split/split_dataset.cpp"}  # of the record; of a message


class OptionsTest(TreeTest):
    def names(self):
        found = {name for path in cpp_files(SRC / "cli") for name in ROW.findall(path.read_text(encoding="utf-8"))}
        self.assertGreater(len(found), 100)
        return found

    def test_names_stand_in_cli(self):
        names, faults = self.names(), []
        for path in cpp_files(SRC):
            file = str(path.relative_to(SRC))
            if file.startswith(MAY_NAME):
                continue
            for number, line in numbered_lines(path):
                code = line.split("//")[0]
                faults += [f"src/{file}:{number}: {word}" for word in LITERAL.findall(code)
                           if word in names and OTHER_WORDS.get(word) != file]
        self.assert_none(faults, "names an option, which cli/settings.h should")

    def test_settings_are_asked_for_names_of_cli(self):
        faults = [f"{path.relative_to(SRC)}:{number}" for path in cpp_files(SRC)
                  if not path.is_relative_to(SRC / "cli") and '"cli/' in path.read_text(encoding="utf-8")
                  for number, line in numbered_lines(path) if "ettings" in line and ASKED.search(line)]
        self.assert_none(faults, "asks for an option by a string")


if __name__ == "__main__":
    main()
