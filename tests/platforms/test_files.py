"""Generated files and tables in the repository match the program and the sources. KILN_RENEW=1 renews them."""
import json
import os
import re
import subprocess
import unittest

from platforms import COMPONENTS, KILN, KUBEFLOW, ROOT, described, main  # knows the way to the generators
import component_files
import generate
import option_tables

# The networks and files of src/model/catalogue.cpp.
WEIGHTS = re.compile(r"(<!-- weights -->\n)(.*?)(\n<!-- /weights -->)", re.S)
ERRORS = re.compile(r"(<!-- errors -->\n)(.*?)(\n<!-- /errors -->)", re.S)


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


def weights_table():
    """Names, sizes and accuracies of the files in the catalogue."""
    file = r'\{"([\w.-]+\.pth)",\s+(\d+),\s+([\d.]+)(?:,\s+\d+)?\}'
    rows = re.findall(rf'\{{"(\w+)",\s+"\w+",\s+\{{\{{((?:{file},?\s*)+)\}}', (ROOT / "src/model/catalogue.cpp").read_text())
    assert rows, "src/model/catalogue.cpp is not read as expected"
    lines = ["| network | IMAGENET1K_V1 | MB | top-1, % | IMAGENET1K_V2 | MB | top-1, % |", "|---|---|---|---|---|---|---|"]
    for network, files, *_ in rows:
        row = [network]
        for name, megabytes, accuracy in re.findall(file, files):
            row += [f"`{name}`", megabytes, accuracy]
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
        files = generate.components(described())
        self.assertEqual(set(files), {*COMPONENTS.values(), *KUBEFLOW.values()})
        for path, text in files.items():
            with self.subTest(path=path):
                self.check(ROOT / path, text)

    def test_no_component_is_left_over(self):
        found = {str(path.relative_to(ROOT)) for path in (ROOT / "components").rglob("*.yaml")}
        self.assertEqual(found, set(COMPONENTS.values()) - {"component.yaml"} | set(KUBEFLOW.values()))

    def test_option_tables(self):
        for name, text in generate.pages(described()).items():
            with self.subTest(name=name):
                self.assertIn("<!-- options:train", text)
                self.check(ROOT / name, text)

    def test_every_command_and_option_is_in_the_tables(self):
        found = {match[2]: match[4] for match in option_tables.MARKED.finditer((ROOT / "docs/options.md").read_text())}
        commands = described()["commands"]
        self.assertGreater(len(commands), 10)
        self.assertEqual(sorted(found), sorted(command["name"] for command in commands))
        for command in commands:
            listed = re.findall(r"^\| `--([a-z0-9-]+)` \|", found[command["name"]], re.M)
            self.assertEqual(listed, [option["name"] for option in command["options"]])

    def test_errors(self):
        text = (ROOT / "docs/errors.md").read_text()
        self.assertIn("<!-- errors -->", text)
        renewed = ERRORS.sub(lambda found: found[1] + errors_table(found[2]) + found[3], text)
        self.check(ROOT / "docs/errors.md", renewed)
        self.assertNotIn("| ? |", renewed, "docs/errors.md: give every error a cause and a remedy")

    def test_weights(self):
        text = (ROOT / "docs/weights.md").read_text()
        self.assertIn("<!-- weights -->", text)
        renewed = WEIGHTS.sub(lambda found: found[1] + weights_table() + found[3], text)
        self.check(ROOT / "docs/weights.md", renewed)

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


class ComponentTest(unittest.TestCase):
    components = {component.name: component for component in component_files.components(described()["commands"])}

    def text(self, write, name):
        return write(self.components[name], "1.2.3", "registry/kiln:1.2.3")

    def test_a_form_is_short_and_complete(self):
        for name, component in self.components.items():
            shown = [option for option in component.options if option["canvas"] == "parameter"]
            self.assertLessEqual(len(shown), 25, name)
            # In Kubeflow no parameter can be left out.
            self.assertEqual([option["name"] for option in shown if not component_files.canvas_default(option)], [], name)

    def test_fine_tune_passes_nothing_that_auto_decides(self):
        azure = self.text(component_files.azure, "fine-tune")
        self.assertIn("command: >-\n  kiln train\n", azure)
        self.assertIn('    default: "30min"\n', azure)
        for name in ("learning_rate", "epochs", "untrained_model_path"):
            self.assertNotIn(f"{name}:", azure)
            self.assertIn(f"{name}:", self.text(component_files.azure, "train"))

    def test_image_and_version(self):
        for write in (component_files.azure, component_files.kubeflow):
            text = self.text(write, "train")
            self.assertIn('image: "registry/kiln:1.2.3"', text)
            self.assertIn('version: "1.2.3"', text)

    def test_checkpoints_are_kept_where_the_platform_keeps_them(self):
        """An output of Azure ML lasts beyond a job that was stopped; Kubeflow has none that does."""
        self.assertIn("  --checkpoint-path ${{outputs.checkpoint_path}}\n", self.text(component_files.azure, "train"))
        self.assertNotIn("checkpoint", self.text(component_files.kubeflow, "train"))

    def test_metrics_are_an_output_of_commands_that_have_them(self):
        self.assertIn("    - {executorInput: null}\n", self.text(component_files.kubeflow, "train"))
        self.assertNotIn("executorInput", self.text(component_files.kubeflow, "convert"))


class DescribeTest(unittest.TestCase):
    def refuse(self, *arguments):
        done = subprocess.run([KILN, "describe", *arguments], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_metrics_are_json(self):
        printed = subprocess.run([KILN, "describe", "--format", "sagemaker-metrics"], capture_output=True, text=True, check=True)
        self.assertEqual({tuple(metric) for metric in json.loads(printed.stdout)}, {("Name", "Regex")})

    def test_bad_requests(self):
        self.assertIn("--format", self.refuse())
        self.assertIn("json or sagemaker-metrics", self.refuse("--format", "helm"))
        self.assertIn("share/man/man1/kiln.1", self.refuse("--format", "man"))


if __name__ == "__main__":
    main()
