#!/usr/bin/env python3
"""Scores a list of very many images: memory stays level, and every line of the list gets its row, in order.

    tests/nightly/million_rows.py [--rows N]      a million unless given: about ten minutes on two cores

The list names a few small images again and again, in an order drawn at random. The answers are written as CSV and as a
DataFrameDirectory at once.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILN = os.environ.get("KILN", str(ROOT / "build/release/kiln"))
WARM = 0.1  # of the rows; from then on memory is level
SLACK_MB = 16  # some 20 bytes a row, where there are a million
SAMPLES_PER_SECOND = 50


def kiln(*arguments):
    result = subprocess.run([KILN, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    if result.returncode != 0:
        sys.exit(result.stderr)


def resident_mb(process):
    for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return None  # it has ended


def prepare(folder, rows):
    kiln("demo-data", "--output-path", folder / "data", "--images", 40, "--classes", 2, "--size", 16)
    kiln("init-model", "resnet18", "--untrained-model-path", folder / "untrained")
    kiln("train", "--untrained-model-path", folder / "untrained", "--train-data-path", folder / "data/train",
         "--valid-data-path", folder / "data/val", "--trained-model-path", folder / "model", "--log-path", folder / "logs",
         "--epochs", 1, "--batch-size", 8, "--device", "cpu")
    images = sorted(str(path.relative_to(folder)) for path in (folder / "data").rglob("*.png"))
    draw = random.Random(1)
    with open(folder / "list", "w", encoding="utf-8") as file:
        file.writelines(draw.choice(images) + "\n" for _ in range(rows))


def score(folder):
    """(bytes of the answers that are written, resident memory in MB) as time went on."""
    part, samples = folder / "scores.csv.part", []
    with open(folder / "output", "wb") as output:
        process = subprocess.Popen(
            [KILN, "score", "--trained-model-path", folder / "model", "--files-from", folder / "list", "--data-path", folder,
             "--output-path", folder / "scores.csv", "--scored-dataset", folder / "scored", "--device", "cpu"],
            stdout=output, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                try:
                    samples.append((part.stat().st_size, resident_mb(process.pid)))
                except OSError:  # not yet, or no longer
                    pass
                time.sleep(1 / SAMPLES_PER_SECOND)
        finally:
            process.kill()
            process.wait()
    if process.returncode != 0:
        sys.exit((folder / "output").read_text())
    return [(size, memory) for size, memory in samples if memory is not None]


def check_rows(folder, rows):
    """One row a line, in order; an image always gets the same answer."""
    first, count = {}, 0
    with open(folder / "list", encoding="utf-8") as names, open(folder / "scores.csv", newline="", encoding="utf-8") as scores:
        for name, row in zip(map(str.strip, names), csv.DictReader(scores), strict=True):
            count += 1
            assert row["path"] == name, f"row {count} is of {row['path']}, not of {name}"
            label, confidence = first.setdefault(row["path"], (row["label"], float(row["confidence"])))
            is_same = row["label"] == label and abs(float(row["confidence"]) - confidence) < 1e-5
            assert is_same, f"row {count}: {row}, but {label}, {confidence} before"
    assert count == rows, f"{count} rows"
    shown = json.loads((folder / "scored/_data.visualization").read_text(encoding="utf-8"))
    assert shown["data"]["numberOfRows"] == rows, shown["data"]["numberOfRows"]


def check_memory(samples, total):
    early = [memory for size, memory in samples if WARM <= size / total < 2 * WARM]
    later = [memory for size, memory in samples if size / total >= 2 * WARM]
    assert len(early) >= 3 and len(later) >= 10, f"only {len(samples)} samples: ask for more rows"
    level, end = statistics.median(early), statistics.median(later[-len(early):])
    print(f"memory: {level:.1f} MB after {WARM:.0%} of the rows, then {max(later):.1f} at most and {end:.1f} at the end "
          f"({len(samples)} samples)")
    assert max(later) <= level + SLACK_MB, "it grows with the rows"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    with tempfile.TemporaryDirectory(prefix="kiln-rows-") as scratch:
        folder = pathlib.Path(scratch)
        prepare(folder, rows)
        begin = time.monotonic()
        samples = score(folder)
        print(f"{rows} rows in {time.monotonic() - begin:.0f} s")
        check_rows(folder, rows)
        check_memory(samples, (folder / "scores.csv").stat().st_size)


if __name__ == "__main__":
    main()
