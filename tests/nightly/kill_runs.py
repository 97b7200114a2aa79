#!/usr/bin/env python3
"""Kills training runs at random moments: each leaves a whole model or none, and the next run succeeds and cleans up.

    tests/nightly/kill_runs.py [--kills N] [--seed S]

Half of the kills come at any moment of a run, the other half while it saves its model, mostly over an earlier one. Of
the runs after a kill one in four goes on to its end; the others are killed as well, so that leftovers meet leftovers.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = os.environ.get("KILN", str(ROOT / "build/release/kiln"))
NAMES = {"_meta.yaml", "model_spec.yaml", "model", "model.safetensors", "index_to_label.csv", "_schema.json",
         "_samples.json", "preprocessing.json", "calibration.json", "seen_images.bin", "training.json"}
FIRST_SAVED = ".kiln-tmp-model_spec.yaml-*"


def kiln(*arguments):
    return subprocess.run([KILN, *map(str, arguments)], capture_output=True, text=True, timeout=300)


def tensors_of_safetensors(path):
    """Digests of all tensors' bytes."""
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:begin])
    offsets = [entry["data_offsets"] for name, entry in header.items() if name != "__metadata__"]
    return collections.Counter(hashlib.sha256(content[begin + first:begin + last]).digest() for first, last in offsets)


def tensors_of_zip(path):
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if "/data/" in name]
        return collections.Counter(hashlib.sha256(archive.read(name)).digest() for name in names)


class Killer:
    def __init__(self, folder, seed):
        self.folder, self.model = folder, folder / "model"
        self.draw = random.Random(seed)
        self.runs = 0
        self.counts = collections.Counter()
        self.require(kiln("demo-data", "--output-path", folder / "data", "--images", 20, "--classes", 2, "--size", 32))
        self.require(kiln("init-model", "resnet18", "--untrained-model-path", folder / "untrained"))

    @staticmethod
    def require(result):
        if result.returncode != 0:
            sys.exit(f"exit code {result.returncode} of {' '.join(result.args)}\n{result.stdout}{result.stderr}")

    def fail(self, what):
        names = sorted(os.listdir(self.model)) if self.model.is_dir() else "no folder"
        sys.exit(f"FAILED after {dict(self.counts)}: {what}\n  the output folder holds {names}")

    def arguments(self):
        """Of the next run; its seed is its number, so that a model tells which run wrote it."""
        self.runs += 1
        options = {"untrained-model-path": self.folder / "untrained", "train-data-path": self.folder / "data/train",
                   "valid-data-path": self.folder / "data/val", "trained-model-path": self.model, "epochs": 1,
                   "batch-size": 8, "device": "cpu", "log-path": self.folder / "logs", "random-seed": self.runs}
        return ["train"] + [word for name, value in options.items() for word in ("--" + name, str(value))]

    def start(self):
        return subprocess.Popen([KILN, *self.arguments()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def await_saving(self, process):
        while process.poll() is None and not any(self.model.glob(FIRST_SAVED)):
            time.sleep(0.0005)

    def measure(self):
        """Seconds of a whole run, and of those from the first file saved to its end; over an earlier model."""
        for _ in range(2):
            begin = time.monotonic()
            process = self.start()
            self.await_saving(process)
            saving = time.monotonic()
            if process.wait() != 0:
                self.fail("a run that nobody killed failed")
        self.run_seconds, self.saving_seconds = time.monotonic() - begin, time.monotonic() - saving

    def kill_one(self):
        if self.draw.random() < 0.2:
            shutil.rmtree(self.model, ignore_errors=True)
        process = self.start()
        if self.draw.random() < 0.5:
            time.sleep(self.draw.uniform(0, self.run_seconds))
        else:
            self.await_saving(process)
            time.sleep(self.draw.uniform(0, self.saving_seconds))
        process.kill()
        self.counts["killed" if process.wait() != 0 else "ended before the kill"] += 1

    def check(self):
        """A whole model of one run, or a folder that no reader takes for a model."""
        if self.model.is_dir() and any(name.startswith(".kiln-tmp-") for name in os.listdir(self.model)):
            self.counts["left temporary files"] += 1
        told = kiln("inspect", self.model, "--json")
        if not (self.model / "_meta.yaml").exists():
            self.counts["left no model"] += 1
            if told.returncode == 0 and "model" in json.loads(told.stdout).get("kind", "").lower():
                self.fail(f"inspect takes it for a model: {told.stdout}")
            return
        self.counts["left a whole model"] += 1
        if told.returncode != 0:
            self.fail(f"inspect refuses it: {told.stderr}")
        missing = NAMES - set(os.listdir(self.model))
        if missing:
            self.fail(f"{sorted(missing)} missing beside _meta.yaml")
        if tensors_of_zip(self.model / "model") != tensors_of_safetensors(self.model / "model.safetensors"):
            self.fail("'model' and 'model.safetensors' hold different weights")

    def finish_one(self):
        self.require(kiln(*self.arguments()))
        self.counts["finished"] += 1
        if set(os.listdir(self.model)) != NAMES:
            self.fail("a finished run left other names than a model directory's")
        seed = json.loads((self.model / "training.json").read_text())["options"]["random-seed"]
        if int(seed) != self.runs:
            self.fail(f"run {self.runs} finished, but training.json is of run {seed}")
        self.check()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    print(f"kill_runs: {options.kills} kills, --seed {options.seed}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-kill-"))
    try:
        killer = Killer(folder, options.seed)
        killer.measure()
        print(f"a run takes {killer.run_seconds:.2f} s, {killer.saving_seconds:.2f} s of them to save", flush=True)
        for number in range(options.kills):
            killer.kill_one()
            killer.check()
            if killer.draw.random() < 0.25 or number + 1 == options.kills:
                killer.finish_one()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(", ".join(f"{count} {what}" for what, count in sorted(killer.counts.items())))


if __name__ == "__main__":
    main()
