"""The command lines of README.md and docs/*.md.

Blocks of commands are indented, or fenced without a language or as sh. A document's blocks are run as one script, in a folder
with photos/train, photos/val (README.md: one folder, photos), examples/ and build/release/kiln. A comment says what is not:
`# not run by a test: why`, or `# run by FILE` for a test that runs the program of that line. At the end of a line it speaks of
that line, alone on a line of all that follow in the block. Every `kiln …`, run or not, in a block or in `…` within text, has
options that its command has.
"""
import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

from platforms import KILN, ROOT, main

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = re.compile(r"#\s*not run by a test: \S")
RUN_BY = re.compile(r"#\s*run by (\S+?)(?:,| \(|\s*$)")
OF_OTHERS = {"--gpus", "--shm-size", "--ipc", "--read-only", "--network", "--platform", "--mpi", "--help", "--version",  # docker's, srun's
             "--signal", "--requeue", "--gpus-per-node", "--gpus-per-task",  # sbatch's
             "--upload"}  # of environment/publish.sh
PREPARE = {"kiln compare logs logs.before": "cp -r logs logs.before"}  # run before the line


def blocks(path):
    """Lists of lines, with continued lines joined."""
    found, block, fence, before = [], [], None, ""
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("```"):
            fence = None if fence is not None else line.strip("` ")
        elif (fence in ("", "sh", "bash")) if fence is not None else line.startswith("    ") and (block or not before):
            line = line if fence is not None else line[4:]
            if block and block[-1].endswith("\\"):
                block[-1] = block[-1][:-1] + line.strip()
            else:
                block.append(line)
            continue
        if block:
            found.append(block)
            block = []
        before = line.strip()
    return found


def lines_with_markers(path):
    """(line, its marker or None), without lines that are only comments."""
    for block in blocks(path):
        marker = None
        for line in block:
            if line.lstrip().startswith("#"):
                if NOT_RUN.search(line) or RUN_BY.search(line):
                    marker = line
            elif line.strip():
                yield line, line if NOT_RUN.search(line) or RUN_BY.search(line) else marker


@functools.cache
def options_of(command):
    done = subprocess.run([KILN, *command.split(), "--help", "all"], capture_output=True, text=True, timeout=60)
    return set(re.findall(r"^  (--[a-z0-9-]+)", done.stdout, re.M)) if done.returncode == 0 else None


def accepted_by(command):
    """Its options, and their names in component files."""
    listed = subprocess.run([KILN, *command.split(), "--help", "all"], capture_output=True, text=True, timeout=60).stdout
    return options_of(command) and options_of(command) | set(re.findall(r"\balso\s+(--[a-z0-9-]+)", listed))


def option_faults(line):
    """Options in a `kiln COMMAND …` line that the command does not have."""
    faults = []
    line = re.sub(r"(^|\s)#.*", "", line)
    for start in re.finditer(r"(?:^|[\s/(])kiln(?::[\w.-]+)? ((?:transform )?[a-z][a-z-]*)(?= |$)", line):
        command, rest = start[1], re.split(r"&&|;|\||>", line[start.end():])[0]
        own, *inner = re.split(r"\s--\s", rest, maxsplit=1)
        for part, name in [(own, command), *((words, words.split()[0]) for words in inner)]:
            known = accepted_by(name)
            if known is None:
                faults.append(f"there is no kiln {name}")
                continue
            given = {word.split("=")[0] for word in part.split() if re.match(r"--[a-z]", word)}
            faults += [f"kiln {name} has no {option}" for option in sorted(given - known - {"--help"})]
    return faults


class DocumentsTest(unittest.TestCase):
    def test_options_exist(self):
        self.assertEqual(option_faults("build/release/kiln train --epoch 3  # --x"), ["kiln train has no --epoch"])
        self.assertEqual(option_faults("kiln launch --ranks 2 -- train --hosts a"), ["kiln train has no --hosts"])
        self.assertEqual(option_faults("kiln fly --far"), ["there is no kiln fly"])
        seen, faults = 0, []
        for path in DOCUMENTS:
            lines = [line for line, _ in lines_with_markers(path)]
            text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
            quoted = [line for line in re.findall(r"`((?:[A-Z_]+=\S+ )?kiln [a-z][^`]*)`", text)]
            for line in lines + quoted:
                seen += bool(re.search(r"\bkiln ", line))
                faults += [f"{path.relative_to(ROOT)}: {line}: {fault}" for fault in option_faults(line)]
        self.assertGreater(seen, 30)
        self.assertEqual(faults, [])

    def test_options_in_text_exist(self):
        """Such as `--save last` in a sentence; docs/coming-from.md also names options of other programs."""
        listed = subprocess.run([KILN, "--help"], capture_output=True, text=True, timeout=60).stdout
        commands = re.findall(r"^  ((?:transform )?[a-z][a-z-]*)  ", listed[listed.index("Commands:"):], re.M)
        known = set().union(*map(accepted_by, commands)) | OF_OTHERS
        named = [(path.name, option) for path in DOCUMENTS if path.name != "coming-from.md"
                 for option in re.findall(r"`(--[a-z][a-z0-9-]*)", path.read_text(encoding="utf-8"))]
        self.assertGreater(len(named), 100)
        self.assertEqual([pair for pair in named if pair[1] not in known], [])

    def test_markers_name_what_runs_them(self):
        faults = []
        for path in DOCUMENTS:
            for line, marker in lines_with_markers(path):
                named = marker and RUN_BY.search(marker)
                if named and not ((ROOT / named[1]).is_file() and self.program(line) in (ROOT / named[1]).read_text()):
                    faults.append(f"{path.relative_to(ROOT)}: {line}: {named[1]} does not run it")
        self.assertEqual(faults, [])

    @staticmethod
    def program(line):
        words = shlex.split(line, comments=True)
        words = words[1:] if words[0].startswith("python") else words
        return pathlib.Path(words[0]).name

    def test_files_exist(self):
        """Links, and paths in the repository."""
        faults = []
        for path in DOCUMENTS + [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md"]:
            text = path.read_text(encoding="utf-8")
            for target, anchor in re.findall(r"\]\(([^)#:]*)(#[^)]*)?\)", text):
                file = path.parent / target if target else path
                headings = re.findall(r"^#+ (.*)", file.read_text(encoding="utf-8"), re.M) if anchor and file.is_file() else []
                anchors = {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
                if not file.exists() or (anchor and anchor not in anchors):
                    faults.append(f"{path.name}: {target}{anchor}")
            for name in re.findall(r"`((?:src|tests|docs|examples|environment|bench|components)/[\w./-]*)`", text):
                if "NAME" not in name and not (ROOT / name).exists():
                    faults.append(f"{path.name}: {name}")
        self.assertEqual(faults, [])

    def test_the_readme_is_short(self):
        self.assertLessEqual(len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()), 200)

    def test_lines_are_narrow(self):
        """Except for tables, the output of `kiln`, and the words, which pages read line by line."""
        for path in DOCUMENTS + [ROOT / "CHANGELOG.md", ROOT / "SECURITY.md"]:
            text = path.read_text(encoding="utf-8").splitlines()
            self.assertEqual([line for line in text if len(line) > 120 and not line.startswith(("|", "- **"))], [], path.name)

    def test_commands_run(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-documents-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        subprocess.run([KILN, "demo-data", "--output-path", folder / "photos", "--images", "24"], check=True, timeout=60,
                       capture_output=True)
        count = 0
        for path in DOCUMENTS:
            lines = [line for line, marker in lines_with_markers(path) if marker is None]
            if not lines:
                continue
            count += len(lines)
            with self.subTest(document=path.name):
                photos = folder / ("photos/train" if path.name == "README.md" else "photos")
                self.run_lines(folder / path.stem, photos, lines)
        self.assertGreater(count, 5)

    def run_lines(self, folder, photos, lines):
        (folder / "build/release").mkdir(parents=True)
        (folder / "build/release/kiln").symlink_to(KILN)
        (folder / "examples").symlink_to(ROOT / "examples")
        (folder / "photos").symlink_to(photos)
        script = []
        for line in lines:
            script += [command for start, command in PREPARE.items() if line.startswith(start)] + [line]
        done = subprocess.run(["bash", "-euxo", "pipefail", "-c", "\n".join(script)], cwd=folder, capture_output=True, text=True,
                              timeout=200, env={**os.environ, "PATH": f"{folder}/build/release:{os.environ['PATH']}",
                                                "OMP_WAIT_POLICY": "passive"})
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}")


class ReliabilityTest(unittest.TestCase):
    """Each row of docs/reliability.md names tests, and they exist."""

    def test_every_row_names_tests_that_exist(self):
        units = {f"{suite}.{name}" for path in (ROOT / "tests").rglob("*.cpp")
                 for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", path.read_text(encoding="utf-8"), re.M)}
        functions = {name for path in (ROOT / "tests").rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
        listed = (ROOT / "tests/fuzz/CMakeLists.txt").read_text()
        image_formats = re.search(r"foreach\(kind IN ITEMS ([^)]+)\)", listed)[1].lower().split()
        targets = {*re.findall(r"^kiln_fuzz\((\w+) ", listed, re.M), *image_formats}
        told = set()
        rows = [line.split("|")[-2] for line in (ROOT / "docs/reliability.md").read_text(encoding="utf-8").splitlines()
                if line.startswith("| ") and not line.startswith("| fault or attack")]
        self.assertGreater(len(rows), 50)
        for row in rows:
            with self.subTest(row=row):
                named = re.findall(r"`([^`]+)`", row)
                self.assertTrue(named)
                suite = ""
                for name in named:
                    if name.startswith("tests/"):
                        self.assertTrue((ROOT / name).exists(), name)
                    elif name.startswith("test_"):
                        self.assertIn(name, functions)
                    elif name.startswith("flow."):
                        self.assertTrue((ROOT / f"tests/flow/test_{name[5:]}.py").exists(), name)
                    else:
                        suite = name.split(".")[0] or suite
                        self.assertIn(f"{suite}.{name.split('.')[1]}", units)
                if "`tests/fuzz`:" in row:
                    named_targets = re.findall(r"\w+", row.split("`tests/fuzz`:")[1].split(";")[0])
                    self.assertLessEqual(set(named_targets), targets)
                    told |= set(named_targets)
        self.assertEqual(targets - told, set(), "fuzz targets without a row")


if __name__ == "__main__":
    main()
