"""The manual page and the completions, read by the programs for which they are made."""
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from platforms import KILN, ROOT, SHARE, described, main  # knows the way to the generators
import generate
from test_documents import options_of
from test_files import source_errors


@functools.cache
def commands():
    shown = subprocess.run([KILN, "--help"], capture_output=True, text=True, timeout=60).stdout
    return re.findall(r"^  ((?:transform )?[a-z][a-z-]*)  ", shown[shown.index("Commands:"):], re.M)


def options(command):
    return options_of(command) | {"--help"}


class ShellTest(unittest.TestCase):
    """A folder in which `shell` completes words by its file in share/; skipped where the shell is not installed."""
    shell, file = None, None

    def setUp(self):
        self.program = shutil.which(self.shell)
        if self.program is None:
            self.skipTest(f"{self.shell} is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "photos").mkdir()
        (self.folder / "weights.pth").touch()
        self.script = shutil.copy(SHARE / self.file, self.folder / "script")

    def lines(self, *arguments):
        """What a shell that finds no program prints: no key press may start one."""
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True, cwd=self.folder, timeout=60,
                              env={"PATH": "", "HOME": str(self.folder)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def check_commands(self):
        first = {name.split()[0] for name in commands()} | {"help"}
        self.assertEqual(set(self.complete("kiln", "")), first)
        self.assertEqual(set(self.complete("kiln", "transform", "")), {"init", "apply"})
        self.assertEqual(set(self.complete("kiln", "help", "tr")), {"train", "transform"})
        self.assertEqual(set(self.complete("kiln", "launch", "--ranks", "2", "--", "")), {"train"})

    def check_options(self):
        for name in commands():
            with self.subTest(name=name):
                self.assertEqual(set(self.complete("kiln", *name.split(), "--")), options(name))
        self.assertEqual(self.complete("kiln", "tune", "--", "train", "--epo"), ["--epochs"])

    def check_values(self):
        for words, expected in (
                (("train", "--device", ""), {"auto", "cuda", "cpu"}), (("train", "--device", "c"), {"cuda", "cpu"}),
                (("train", "--sync-batch-norm", "T"), {"True"}), (("train", "--image-size", ""), {"auto"}),
                (("transform", "apply", "--mode", ""), {"For training", "For inference"}),
                (("init-model", "densenet12"), {"densenet121"}), (("train", "--epochs", ""), set()),
                (("describe", "--format", "j"), {"json"}),
                (("inspect", "pho"), {"photos"}), (("train", "--weights", "wei"), {"weights.pth"})):
            with self.subTest(words=words):
                self.assertEqual({word.rstrip("/") for word in self.complete("kiln", *words)}, expected)


class BashTest(ShellTest):
    shell, file = "bash", "bash-completion/completions/kiln"
    call = ('source script; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kiln; '
            'for word in "${COMPREPLY[@]}"; do echo "$word"; done')

    def complete(self, *words):
        return self.lines("--norc", "-c", self.call, "bash", *words)

    def test_commands_options_and_values(self):
        self.check_commands()
        self.check_options()
        self.check_values()

    def test_spellings(self):
        for words, expected in ((("--device", "="), ["auto", "cuda", "cpu"]), (("--device", "=", "cu"), ["cuda"]),
                                (("--train_data_path", "pho"), ["photos"])):
            self.assertEqual(self.complete("kiln", "train", *words), expected)
        for begin in ("For\\ t", "'For t"):
            self.assertEqual(self.complete("kiln", "transform", "apply", "--mode", begin), ["For training"])


class FishTest(ShellTest):
    shell, file = "fish", "fish/vendor_completions.d/kiln.fish"

    def complete(self, *words):
        lines = self.lines("--no-config", "-c", f"source script; complete -C '{' '.join(words)}'")
        return [line.split("\t")[0] for line in lines]

    def test_commands_options_and_values(self):
        self.assertEqual(self.lines("--no-execute", "script"), [])
        self.check_commands()
        self.check_options()
        self.check_values()


class ZshTest(ShellTest):
    """Its functions that complete words run in an editor only: here they print what they are given."""
    shell, file = "zsh", "zsh/site-functions/_kiln"
    stubs = ("compset() { words=(\"${(@)words[$2,-1]}\"); (( CURRENT -= $2 - 1 )) }; compadd() { print -rl -- $@ }; "
             "_describe() { print -rl -- ${commands%%:*} }; _arguments() { print -rl -- $@ }; ")

    def given(self, *words):
        return self.lines("-f", "-c", self.stubs + 'words=("$@") CURRENT=$#; source ./script', "zsh", *words)

    def test_commands_and_options(self):
        self.assertEqual(self.lines("-n", "script"), [])
        self.assertEqual(set(self.given("kiln", "")), {name.split()[0] for name in commands()} | {"help"})
        self.assertEqual(self.given("kiln", "transform", ""), ["init", "apply"])
        self.assertEqual(self.given("kiln", "launch", "--ranks", "2", "--", ""), ["train"])
        self.assertEqual(self.given("kiln", "tune", "--", "train", ""), self.given("kiln", "train", ""))
        for name in commands():
            with self.subTest(name=name):
                names = {re.match(r"\**(--[\w-]+|\*)", spec)[1] for spec in self.given("kiln", *name.split(), "")}
                self.assertEqual(names, options(name) | {"*"})
        specs = self.given("kiln", "transform", "apply", "")
        self.assertTrue(any(spec.endswith(r":(For\ training For\ inference)") for spec in specs), specs)


class ShareTest(unittest.TestCase):
    """What the build made, where some of the shells are not installed, too."""

    def test_it_is_of_this_program(self):
        for name, text in generate.share(described()).items():
            with self.subTest(name=name):
                self.assertEqual((SHARE / name).read_text(), text)

    def test_completions_know_every_option(self):
        bash, zsh, fish = ((SHARE / test.file).read_text() for test in (BashTest, ZshTest, FishTest))
        for command in described()["commands"]:
            for option in command["options"]:
                with self.subTest(command=command["name"], option=option["name"]):
                    self.assertIn(f"--{option['name']}|", bash)
                    self.assertIn(f" -l {option['name']} -d ", fish)
                    self.assertIn(f"--{option['name']}" + ("[" if option["kind"] == "flag" else "=["), zsh)


class ManPageTest(unittest.TestCase):
    def setUp(self):
        self.page = (SHARE / "man/man1/kiln.1").read_text()

    def section(self, title):
        return re.search(rf"^\.SH {title}\n(.*?)(?=^\.SH |\Z)", self.page, re.M | re.S)[1].replace("\\-", "-")

    def test_it_is_valid(self):
        """mandoc misses a date, which would make each build's page another."""
        for program in (["groff", "-man", "-ww", "-z"], ["mandoc", "-T", "lint", "-W", "warning"]):
            with self.subTest(program=program[0]):
                if shutil.which(program[0]) is None:
                    self.skipTest(f"{program[0]} is not installed")
                done = subprocess.run(program, input=self.page, capture_output=True, text=True, timeout=60)
                said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
                self.assertEqual(said, [])

    def test_it_has_every_command_and_option(self):
        titles = re.findall(r"^\.SH (.*)", self.page, re.M)
        self.assertEqual(titles, ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES",
                                  "EXAMPLES"])
        sections = re.split(r"^\.SS kiln ", self.section("COMMANDS"), flags=re.M)[1:]
        self.assertEqual([section.splitlines()[0] for section in sections], commands())
        for name, section in zip(commands(), sections):
            with self.subTest(name=name):
                found = re.findall(r"^\.TP\n\\fB(--[a-z0-9-]+)\\fR", section, re.M)
                self.assertEqual(set(found) | {"--help"}, options(name))

    def test_minus_signs_can_be_copied(self):
        self.assertNotRegex(self.page, r"[^\\]-")

    def test_roff_reads_no_text_as_a_request(self):
        requests = {line.split()[0] for line in self.page.splitlines() if line[0] in ".'"}
        self.assertEqual(requests, {".TH", ".SH", ".SS", ".TP", ".PP", ".I"})
        escapes = set(re.findall(r"\\(?!f[BR])(\(..|.)", self.page))
        self.assertLessEqual(escapes, {"-", "&", "e", "(aq", "(dq", "(ha", "(ti"})

    def test_errors_and_variables_are_the_program_s(self):
        ids = re.findall(r"^\.TP\n\\fB(\d)\\fR\n(.*)", self.section("EXIT STATUS"), re.M)
        listed = {(number, name, status) for status, names in ids for name, number in re.findall(r"(\w+) \((\d+)\)", names)}
        self.assertEqual(listed, set(source_errors()))
        source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.cpp"))
        variables = re.findall(r"\b[A-Za-z]+_?[A-Z_a-z]*\b", " ".join(
            re.findall(r"^\.TP\n\\fB(.*)\\fR", self.section("ENVIRONMENT"), re.M)))
        self.assertGreater(len(variables), 20)
        self.assertEqual([name for name in variables if name not in source], ["no_proxy"])  # libcurl reads it


if __name__ == "__main__":
    main()
