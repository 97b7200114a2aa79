"""Shared by the flow tests: the real binary, small data, and what a run leaves behind. Standard library only.

    flow.py FOLDER      makes anew what all of them read: demo data, an untrained ResNet-18 and a trained one
"""
import atexit
import contextlib
import csv
import functools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import zlib

KILN = os.environ.get("KILN", str(pathlib.Path(__file__).parents[2] / "build/release/kiln"))
SHARED = pathlib.Path(os.environ.get("KILN_SHARED", pathlib.Path(__file__).parents[3] / "shared"))


def kiln(*arguments, cwd=None, environment=None, preexec=None):
    """Runs kiln; the result has returncode, stdout and stderr."""
    command = [KILN, *map(str, arguments)]
    settings = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=settings, timeout=300,
                          preexec_fn=preexec)


def networks():
    """The names of all networks."""
    commands = json.loads(kiln("describe", "--format", "json").stdout)["commands"]
    return next(option["choices"] for command in commands if command["name"] == "init-model"
                for option in command["options"] if option["name"] == "model-name")


def start_until(test, beginning, words, **settings):
    """Starts a program in a process group of its own; the process, once a line of its output begins so."""
    process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, start_new_session=True, **settings)
    test.addCleanup(process.stdout.close)
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)
    output = ""
    for line in process.stdout:
        output += line
        if line.startswith(beginning):
            return process
    raise AssertionError(f"'{beginning}' never came:\n{output}")


def driver_log(process, logs):
    """The lines of rank 0's driver log, as they come, until the process has ended; of a new folder."""
    path = logs / "70_driver_log_0.txt"
    while not path.exists() and process.poll() is None:
        time.sleep(0.02)
    with open(path, errors="replace") as file:
        while (line := file.readline()) or process.poll() is None:
            if line:
                yield line
            else:
                time.sleep(0.02)


def assert_resumed(test, result, model, logs, epochs):
    """`result`, of a second start, is that of a run which went on: it did not train the first epoch again, wrote the model, and
    its record has every epoch once."""
    test.assertEqual(result.returncode, 0, result.stdout + result.stderr)
    test.assertNotIn("\nEpoch 1,", result.stdout)
    test.assertEqual(kiln("inspect", model).returncode, 0)
    rows = (logs / "epochs.csv").read_text().splitlines()
    test.assertEqual([row.split(",")[0] for row in rows[1:]], [str(epoch) for epoch in range(1, epochs + 1)])


def files_below(folder):
    """Relative path -> bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def png(rows, orientation=None):
    """Rows of pixels, (red, green, blue) each, with an eXIf chunk if there is an orientation."""
    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    exif = b"" if orientation is None else chunk(b"eXIf", b"II*\0" + struct.pack("<IHHHIII", 8, 1, 274, 3, 1, orientation, 0))
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    data = zlib.compress(b"".join(b"\0" + b"".join(map(bytes, row)) for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + exif + chunk(b"IDAT", data) + chunk(b"IEND", b"")


@contextlib.contextmanager
def another_libheif(data=b""):
    """kiln finds this file instead of the system's libheif."""
    with tempfile.TemporaryDirectory(prefix="kiln-flow-") as folder:
        (pathlib.Path(folder) / "libheif.so.1").write_bytes(data)
        with unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"):
            yield


def noise(draw, height=32, width=32):
    """Rows of pixels for png(), from a random.Random."""
    return [[bytes(draw.randrange(256) for _ in range(3)) for _ in range(width)] for _ in range(height)]


def train_on_shapes(images, model, logs, *words):
    """A ResNet-18 of the demo data in `images`, which is not the designer's: it keeps what it knows of its images."""
    return kiln("train", "--model-name", "resnet18", "--train-data-path", images / "train", "--valid-data-path", images / "val",
                "--trained-model-path", model, "--log-path", logs, "--batch-size", 16, "--image-size", 32, "--device", "cpu",
                *words)


def gallery_of(logs):
    """The answers in the pictures.bin of a --log-path."""
    return json.loads((logs / "pictures.bin").read_bytes().split(b"\n", 1)[0])["galleries"][0]["images"]


def seen_images(model):
    """The hashes of the training and of the validation images in a ModelDirectory."""
    data = (model / "seen_images.bin").read_bytes()
    magic, version, *counts = struct.unpack_from("<8sIQQ", data)
    assert (magic, version, len(data)) == (b"KILNSEEN", 1, 28 + 6 * sum(counts)), data[:28]
    hashes = [data[at:at + 6] for at in range(28, len(data), 6)]
    return set(hashes[:counts[0]]), set(hashes[counts[0]:])


def handles(pid, number):
    """Whether the process has a handler for the signal yet; until then it has the system's meaning."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"SigCgt:\t([0-9a-f]+)", status)[1], 16) >> (number - 1) & 1


def become_nobody():
    """For the child, before kiln starts: a user whom permissions bind."""
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)


def make_files(folder):
    """Demo data in data/, an untrained ResNet-18 in untrained/ and one trained on the data in trained/, readable by everybody."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    for words in (["demo-data", "--output-path", folder / "data", "--images", 60, "--classes", 3, "--size", 32],
                  ["init-model", "resnet18", "--untrained-model-path", folder / "untrained"],
                  ["train", "--untrained-model-path", folder / "untrained", "--train-data-path", folder / "data/train",
                   "--valid-data-path", folder / "data/val", "--trained-model-path", folder / "trained", "--log-path",
                   folder / "logs", "--epochs", 2, "--batch-size", 8, "--device", "cpu"]):
        made = kiln(*words)
        if made.returncode != 0:
            raise SystemExit(made.stderr)


@functools.cache
def shared_files():
    """Where make_files() was at work: for all tests of a run of CTest, or else for this program."""
    if given := os.environ.get("KILN_FLOW_FILES"):
        return pathlib.Path(given)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    make_files(folder)
    return folder


def cpu_has_bf16():
    flags = pathlib.Path("/proc/cpuinfo").read_text()
    return "amx_bf16" in flags or "avx512_bf16" in flags


def jpeg_size(data):
    """Width and height, by the frame header."""
    at = 2
    while data[at + 1] not in (0xc0, 0xc1, 0xc2):
        at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    height, width = struct.unpack_from(">HH", data, at + 5)
    return width, height


def explanations(test, folder, size=None):
    """The rows of explanations.csv; `folder` holds a picture of that size for each and nothing more. Of 32x32 pixels, which leave
    a single one of the last feature map, there is none."""
    with open(folder / "explanations.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    test.assertEqual([row["file"] for row in rows],
                     [f"{number:03}-{pathlib.Path(row['path']).stem}.jpg" if size else "" for number, row in enumerate(rows, 1)])
    test.assertEqual({path.name for path in folder.iterdir()}, {"explanations.csv", *(row["file"] for row in rows)} - {""})
    for row in rows if size else ():
        test.assertEqual(jpeg_size((folder / row["file"]).read_bytes()), size)
    return rows


def tensorboard_of(test, folder):
    """What TensorBoard's own reader reads of a folder; the test is skipped where there is no such reader."""
    sys.path.insert(0, os.environ.get("KILN_PARITY_PACKAGES") or str(pathlib.Path(__file__).parents[2] / ".deps/parity"))
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError as error:
        test.skipTest(str(error))
    reader = EventAccumulator(str(folder))
    reader.Reload()
    return reader


class FlowTest(unittest.TestCase):
    """Has a folder of its own; `data`, `untrained` and `trained_model` are shared and only read."""
    device = "cpu"

    @classmethod
    def setUpClass(cls):
        cls.shared_folder = shared_files()
        cls.data, cls.untrained, cls.trained_model = (cls.shared_folder / name for name in ("data", "untrained", "trained"))

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train_arguments(self, **options):
        """Arguments of a run of one epoch and two steps; `train_data_path=…` and so on replace them, None removes one."""
        defaults = {"untrained_model_path": self.untrained, "train_data_path": self.data / "train",
                    "valid_data_path": self.data / "val", "trained_model_path": self.folder / "model",
                    "log_path": self.folder / "logs", "epochs": 1, "batch_size": 24, "threads": 2, "device": self.device}
        pairs = {**defaults, **options}
        return ["train"] + [word for name, value in pairs.items() if value is not None
                            for word in ("--" + name.replace("_", "-"), str(value))]

    def train(self, **options):
        return kiln(*self.train_arguments(**options))

    def copy_data(self, part="train"):
        """A copy of demo data that a test may spoil."""
        target = self.folder / part
        shutil.copytree(self.data / part, target)
        return target

    def assert_names(self, text, *names):
        """`text` holds each of these: options, files, classes, codes and numbers, not sentences."""
        missing = [str(name) for name in names if str(name) not in text]
        self.assertEqual(missing, [], text)

    def start_event(self):
        """What the record says when a run begins."""
        return json.loads((self.folder / "logs/metrics.jsonl").read_text().splitlines()[0])

    def training(self, folder="model"):
        return json.loads((self.folder / folder / "training.json").read_text())

    def error_info(self):
        return json.loads((self.folder / "logs/module_statistics/error_info.json").read_text())["Exception"]

    def assert_fails(self, result, exit_code, code, *words):
        """The run failed with this exit code and designer code, said `words`, and left no model and no stack trace."""
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        self.assertEqual(self.error_info()["ErrorCode"], code)
        self.assert_names(result.stderr, *words)
        self.assertNotIn("Exception raised from", result.stderr)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def train_bound_by_permissions(self, **options):
        """As train(), by a user other than root, to whom the test's folders are open. Skips where there is no way."""
        if os.geteuid() != 0:
            return self.train(**options)
        self.folder.chmod(0o777)
        self.need_nobody()
        return kiln(*self.train_arguments(**options), preexec=become_nobody)

    def need_nobody(self):
        """Skips where another user cannot run the binary or enter the test's folder."""
        for file in (KILN, self.folder):
            reach = subprocess.run(["test", "-x", file], preexec_fn=become_nobody)
            if reach.returncode != 0:
                self.skipTest(f"another user cannot reach {file}: a folder above it is closed")

    def image_directory(self):
        """The training images as an ImageDirectory that a test may spoil."""
        folder = self.folder / "image_directory"
        shutil.rmtree(folder, ignore_errors=True)
        made = kiln("convert", "--input-path", self.data / "train", "--output-path", folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        return folder

    def assert_refused(self, result, exit_code, *words):
        """For commands other than train: refused with these words, by design and not by accident."""
        self.assertEqual(result.returncode, exit_code, f"{result.stdout}{result.stderr}")
        self.assert_names(result.stderr, *words)
        self.assertNotIn("bug in kiln", result.stderr)

    def write_coco(self):
        """The training images as a COCO folder, in the order of the class folders."""
        folder = self.folder / "coco"
        shutil.copytree(self.data / "train", folder)
        files = sorted(files_below(folder))
        names = sorted({file.split("/")[0] for file in files})
        (folder / "labels.json").write_text(json.dumps({
            "images": [{"id": number, "file_name": file} for number, file in enumerate(files)],
            "annotations": [{"id": number, "image_id": number, "category_id": names.index(file.split("/")[0])}
                            for number, file in enumerate(files)],
            "categories": [{"id": number, "name": name} for number, name in enumerate(names)]}))
        return folder


def main():
    """Runs the calling file's tests; lists at the end what was skipped or failed as expected; exits 77 when all were skipped."""
    program = unittest.main(exit=False, verbosity=2, module="__main__")
    result = program.result
    for test, reason in result.skipped:
        print(f"SKIPPED {test.id().removeprefix('__main__.')}: {reason}")
    for test, _ in result.expectedFailures:
        print(f"EXPECTED FAILURE {test.id().removeprefix('__main__.')}")
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit(1)
    whole = [test for test, _ in result.skipped if not hasattr(test, "test_case")]  # and not a subTest of it
    sys.exit(77 if len(whole) == result.testsRun else 0)


if __name__ == "__main__":
    make_files(pathlib.Path(sys.argv[1]))
