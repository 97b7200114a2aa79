"""The stand-in device (fake/README.md) for the tests of this folder. Nothing it shows is a measurement of a GPU.

The flow tests' own helpers then run the program that is linked beside the stand-in's module, with its driver.
"""
import collections
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path(os.environ.get("KILN", pathlib.Path(__file__).parents[2] / "build/release/kiln")).resolve().parent
FOLDER = BUILD / "stand_in"
os.environ.update({
    "KILN": str(FOLDER / "kiln"),
    "LD_LIBRARY_PATH": ":".join(filter(None, [str(BUILD / "tests/flow/stand_in_driver"), os.environ.get("LD_LIBRARY_PATH")])),
    "KILN_STAND_IN_DRIVER_VERSION": "580.65.06", "KILN_STAND_IN_CAPABILITY": "90", "KILN_STAND_IN_DEVICES": "2",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "flow"))
from flow import FlowTest, kiln, main  # noqa: E402: after KILN was set


class GpuTest(FlowTest):
    device = "cuda"

    def run_kiln(self, *words, program=(FOLDER / "kiln",), **settings):
        """Runs the command, which has to end with 0. Settings: those of the stand-in, copy_us=… and so on."""
        names = {"KILN_STAND_IN_" + name.upper(): str(value) for name, value in settings.items()}
        result = subprocess.run([*map(str, (*program, *words))], capture_output=True, text=True, timeout=300,
                                env={**os.environ, **names})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def counted(self, *words, **settings):
        """What each process of a command asked of the device: {(kind, name): count}, in the order of their numbers."""
        folder = self.folder / "reports"
        folder.mkdir(exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        self.run_kiln(*words, report=folder / "process", **settings)
        accounts = []
        for file in sorted(folder.iterdir(), key=lambda path: int(path.suffix[1:])):
            account = collections.Counter()
            for line in file.read_text().splitlines():
                count, kind, name = line.split(" ", 2)
                account[kind, name] = int(count)
            accounts.append(account)
        return accounts


def run_program(name, *words, **how):
    """A test program beside the stand-in's module."""
    os.environ["KILN_LOAD_SIDE"] = "64"
    return subprocess.run([str(FOLDER / name), *map(str, words)], capture_output=True, text=True, timeout=600, **how)


__all__ = ["BUILD", "FOLDER", "GpuTest", "kiln", "main", "run_program"]
