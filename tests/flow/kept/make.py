"""Makes the archive of files that later versions must read (test_compatibility.py), with the program that KILN names:

    KILN=build/release/kiln tests/flow/kept/make.py        writes kiln-VERSION.tar.gz beside this file

In it: drawn photos, their shards in each format, a model with the answers that it gave, and a checkpoint of a run that was
stopped after an epoch. An archive that is there is never made anew: that would forget what it promises. Each tensor of the
backbone is one number, so that it packs; at a learning rate of next to nothing it stays so.
"""
import json
import pathlib
import re
import shutil
import struct
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from flow import KILN, kiln, start_until  # noqa: E402
from weight_files import read_zip, write_zip  # noqa: E402

# Of the run; from the folder that the archive is unpacked to.
RUN = ["train", "--train-data-path", "photos/train", "--valid-data-path", "photos/val", "--model-name", "resnet18", "--weights",
       "start.pth", "--trained-model-path", "{model}", "--log-path", "{model}-logs", "--checkpoint-path", "checkpoints",
       "--epochs", 40, "--patience", 40, "--learning-rate", 1e-12, "--batch-size", 8, "--image-size", 32, "--device", "cpu",
       "--threads", 1, "--loader-threads", 1]
FORMATS = ("tar", "tfrecord", "recordio")
SCORE = ["score", "--trained-model-path", "model", "--data-path", "photos/val", "--all-classes", "--device", "cpu", "--threads", 1,
         "--output-path"]


def run_words(model, epochs=None):
    words = [str(word).format(model=model) for word in RUN]
    if epochs:
        words[words.index("--epochs") + 1] = str(epochs)
    return words


def done(folder, *words):
    result = kiln(*words, cwd=folder)
    if result.returncode != 0:
        sys.exit(result.stdout + result.stderr)
    return result.stdout


def one_number(name, tensor):
    """The tensor with one value, so that features are small and answers unsure."""
    if tensor.kind != "Float":
        return tensor
    values = {"weight": .01 if len(tensor.shape) > 1 else .2, "bias": .5, "running_mean": 0, "running_var": 1}
    value = values[name.split(".")[-1]]
    tensor.data = struct.pack("<f", value) * (len(tensor.data) // 4)
    return tensor


def make(folder):
    done(folder, "demo-data", "photos", "--images", 24, "--size", 32)
    done(folder, "init-model", "resnet18", "--untrained-model-path", "untrained")
    state = {name: one_number(name, tensor) for name, tensor in read_zip(folder / "untrained/model").items()}
    write_zip(folder / "start.pth", {name.removeprefix("model."): tensor for name, tensor in state.items()})
    for form in FORMATS:
        done(folder, "pack", "--input-path", "photos/val", "--output-path", f"shards/{form}", "--format", form)
    process = start_until(unstarted(), "Epoch 2,", [KILN, *run_words("model")], cwd=folder)
    process.terminate()
    process.communicate(timeout=100)
    *older, _ = sorted((folder / "checkpoints").glob("checkpoint-*"))
    for one in older:  # the newest is enough, and half as large
        shutil.rmtree(one)
        (folder / "checkpoints" / one.name.replace("checkpoint", "best")).with_suffix(".safetensors").unlink(missing_ok=True)
    done(folder, *SCORE, "scores.jsonl")
    print((folder / "scores.jsonl").read_text())
    (folder / "made.json").write_text(json.dumps(done(folder, "--version").splitlines()[:3]) + "\n")


def unstarted():
    """What start_until() registers with a test, for a script that ends soon."""
    class NoTest:
        def addCleanup(self, *_):
            pass
    return NoTest()


def main():
    version = re.match(r"kiln +([\d.]+)", kiln("--version").stdout)[1]
    archive = HERE / f"kiln-{version}.tar.gz"
    if archive.exists():
        sys.exit(f"{archive} is there: what it holds is promised")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder)
        with tarfile.open(archive, "w:gz", compresslevel=9) as file:
            for part in ("photos", "shards", "model", "checkpoints", "start.pth", "scores.jsonl", "made.json"):
                file.add(folder / part, part)
    print(f"{archive}: {archive.stat().st_size} bytes")


if __name__ == "__main__":
    main()
