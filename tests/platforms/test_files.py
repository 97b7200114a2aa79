"""Generated files and tables in the repository match `kiln describe` and the sources. KILN_RENEW=1 renews them."""
import json
import os
import re
import subprocess
import unittest

from platforms import COMPONENTS, KILN, KUBEFLOW, ROOT, describe, main

# <!-- options:train --> has every option of a command, <!-- options:train epochs patience --> these alone, without ranges and
# units. <!-- help:describe --> has what a command's --help says.
OPTIONS = re.compile(r"(<!-- options:(transform [a-z]+|[a-z-]+)((?: [a-z-]+)*) -->\n)(.*?)(\n<!-- /options -->)", re.S)
HELP = re.compile(r"(<!-- help:([a-z-]+) -->\n)(.*?)(\n<!-- /help -->)", re.S)
# The networks and files of src/model/catalogue.cpp; their sizes and accuracies are kept.
WEIGHTS = re.compile(r"(<!-- weights -->\n)(.*?)(\n<!-- /weights -->)", re.S)
ERRORS = re.compile(r"(<!-- errors -->\n)(.*?)(\n<!-- /errors -->)", re.S)


def options_table(command, chosen):
    table = describe("markdown", "--command", command)
    if not chosen:
        return table
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in table.splitlines()[2:] if line]
    rows = {row[0].strip("`"): (row[0], row[1], row[-1]) for row in rows}
    lines = ["| option | default | meaning |", "|---|---|---|"]
    lines += ["| " + " | ".join(rows[f"--{name}"]) + " |" for name in chosen.split()]
    return "\n".join(lines) + "\n"


def help_block(command):
    done = subprocess.run([KILN, command, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return f"```text\n{done.stdout}```"


def source_errors():
    """(number, id, exit code) of every error, from src/base/error.h and error.cpp."""
    header = (ROOT / "src/base/error.h").read_text()
    source = (ROOT / "src/base/error.cpp").read_text()
    numbers = dict(re.findall(r"^  (k\w+) = (\d+),", re.search(r"enum class ErrorCode \{(.*?)\};", header, re.S)[1], re.M))
    ids = dict(re.findall(r'\{ErrorCode::(k\w+), "(\w+)"\}', source))
    body = re.search(r"int exit_code\(ErrorCode code\) \{(.*?)\n\}", source, re.S)[1]
    exits = {}
    for cases, code in re.findall(r"((?:case ErrorCode::k\w+:\s+)+)return (\d+);", body):
        exits.update(dict.fromkeys(re.findall(r"k\w+", cases), code))
    others = re.search(r"default:\s+return (\d+);", body)[1]
    assert numbers and set(numbers) == set(ids) and exits, "src/base/error.h and error.cpp are not read as expected"
    return [(number, ids[name], exits.get(name, others)) for name, number in numbers.items()]


def errors_table(old):
    """Numbers, ids and exit codes come from the sources; cause and remedy are kept from the old table."""
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in old.splitlines()[2:]]
    texts = {row[1].strip("`"): row[3:5] for row in rows}
    lines = ["| code | id | exit code | cause | what to do |", "|---|---|---|---|---|"]
    for number, name, code in source_errors():
        cause, remedy = texts.get(name, ("?", "?"))
        lines.append(f"| {number} | `{name}` | {code} | {cause} | {remedy} |")
    return "\n".join(lines)


def weights_table(old):
    """From the catalogue; what torchvision says of a file's size and accuracy is kept from the old table."""
    cells = [cell.strip() for line in old.splitlines() for cell in line.split("|")]
    facts = {cell: cells[at + 1:at + 3] for at, cell in enumerate(cells) if cell.endswith(".pth`")}
    rows = re.findall(r'\{"(\w+)",\s+"\w+",\s+\{((?:"[^"]+\.pth"(?:,\s)?)+)\}', (ROOT / "src/model/catalogue.cpp").read_text())
    assert rows, "src/model/catalogue.cpp is not read as expected"
    lines = ["| network | IMAGENET1K_V1 | MB | top-1, % | IMAGENET1K_V2 | MB | top-1, % |", "|---|---|---|---|---|---|---|"]
    for network, files in rows:
        row = [network]
        for file in re.findall(r'"([^"]+)"', files):
            row += [f"`{file}`", *facts.get(f"`{file}`", "??")]
        lines.append("| " + " | ".join(row + [""] * (7 - len(row))) + " |")
    return "\n".join(lines)


class CommittedTest(unittest.TestCase):
    def check(self, path, expected):
        if os.environ.get("KILN_RENEW") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected)
        self.assertTrue(path.exists(), f"{path} is missing: KILN_RENEW=1 python3 {__file__}")
        self.assertEqual(path.read_text(), expected, f"{path} is old: KILN_RENEW=1 python3 {__file__}")

    def test_components(self):
        for files, format_name in ((COMPONENTS, "component"), (KUBEFLOW, "kubeflow")):
            for name, path in files.items():
                with self.subTest(path=path):
                    self.check(ROOT / path, describe(format_name, "--command", name))

    def test_no_component_is_left_over(self):
        found = {str(path.relative_to(ROOT)) for path in (ROOT / "components").rglob("*.yaml")}
        self.assertEqual(found, set(COMPONENTS.values()) - {"component.yaml"} | set(KUBEFLOW.values()))

    def test_option_tables(self):
        for name in ("README.md", "docs/options.md"):
            with self.subTest(name=name):
                text = (ROOT / name).read_text()
                self.assertIn("<!-- options:train", text)
                text = OPTIONS.sub(lambda found: found[1] + options_table(found[2], found[3]) + found[5], text)
                text = HELP.sub(lambda found: found[1] + help_block(found[2]) + found[4], text)
                self.check(ROOT / name, text)

    def test_every_command_is_in_the_options(self):
        listed = subprocess.run([KILN, "--help"], capture_output=True, text=True, timeout=60).stdout
        commands = re.findall(r"^  ((?:transform )?[a-z][a-z-]*)  ", listed[listed.index("Commands:"):], re.M)
        text = (ROOT / "docs/options.md").read_text()
        found = [match[2] for match in OPTIONS.finditer(text)] + [match[2] for match in HELP.finditer(text)]
        self.assertGreater(len(commands), 10)
        self.assertEqual(sorted(found), sorted(commands))

    def test_errors(self):
        text = (ROOT / "docs/errors.md").read_text()
        self.assertIn("<!-- errors -->", text)
        renewed = ERRORS.sub(lambda found: found[1] + errors_table(found[2]) + found[3], text)
        self.check(ROOT / "docs/errors.md", renewed)
        self.assertNotIn("| ? |", renewed, "docs/errors.md: give every error a cause and a remedy")

    def test_weights(self):
        text = (ROOT / "docs/weights.md").read_text()
        self.assertIn("<!-- weights -->", text)
        renewed = WEIGHTS.sub(lambda found: found[1] + weights_table(found[2]) + found[3], text)
        self.check(ROOT / "docs/weights.md", renewed)
        self.assertNotIn("| ? |", renewed, "docs/weights.md: give every file its size and accuracy, as torchvision states them")

    def test_exit_codes(self):
        text = (ROOT / "docs/errors.md").read_text()
        listed = set(re.findall(r"^\| (\d+) \| [^`]", text, re.M))
        bug = re.search(r"int exit_code = (\d+);", (ROOT / "src/report/error_info.h").read_text())[1]
        self.assertEqual({code for _, _, code in source_errors()} | {"0", bug, "129", "130", "138", "143"}, listed)


class VersionTest(unittest.TestCase):
    """It stands in the root's CMakeLists.txt, and everything else agrees."""
    version = re.search(r"^project\(kiln VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]

    def test_the_program_says_it_with_its_commit(self):
        said = subprocess.run([KILN, "--version"], capture_output=True, text=True, timeout=60).stdout
        lines = dict(line.split(maxsplit=1) for line in said.splitlines())
        self.assertEqual(lines["kiln"], self.version)
        self.assertRegex(lines["commit"], r"^([0-9a-f]{7,40}|unknown)$")

    def test_documents_and_examples_name_it(self):
        found = {}
        for path in [ROOT / "README.md", *(path for folder in ("components", "docs", "environment", "examples")
                                           for path in (ROOT / folder).rglob("*") if path.is_file())]:
            for number in re.findall(r"\bkiln(?:-with-key)?[:-](\d+\.\d+\.\d+)", path.read_text(errors="replace")):
                found.setdefault(number, []).append(str(path.relative_to(ROOT)))
        self.assertEqual(list(found), [self.version], found)

    def test_the_first_changes_are_of_it(self):
        titles = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
        self.assertEqual(titles[0], self.version)


class DescribeTest(unittest.TestCase):
    def refuse(self, *arguments):
        done = subprocess.run([KILN, "describe", *arguments], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_the_caller_chooses_the_image(self):
        self.assertIn('image: "registry.example/kiln:9"', describe("component", "--image", "registry.example/kiln:9"))

    def test_metrics_are_json(self):
        metrics = json.loads(describe("sagemaker-metrics"))
        self.assertEqual({tuple(metric) for metric in metrics}, {("Name", "Regex")})

    def test_bad_requests(self):
        self.assertIn("--format", self.refuse())
        self.assertIn("component, kubeflow", self.refuse("--format", "helm"))
        self.assertIn("cannot be a pipeline step", self.refuse("--format", "component", "--command", "inspect"))
        self.assertIn("must be train, score, serve", self.refuse("--format", "component", "--command", "tran"))
        self.assertIn("give --command train", self.refuse("--format", "markdown", "--command", "fine-tune"))


if __name__ == "__main__":
    main()
