#!/usr/bin/env python3
"""No step's cost grows with the data set, a record stays small, and 64 ranks train: bench/scale.py, judged.

    tests/nightly/hundred_times.py [--images 6] [--ranks 64]       a quarter of an hour on two cores
"""
import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import scale  # noqa: E402: the path must be known first

GROWTH = 4  # at most, of an image's cost: caches no longer hold the table
FEW_SECONDS = 0.05  # less is not judged


def check_images(options):
    small, large = (scale.measure(options, "images", 10 ** power) for power in (options.images - 1, options.images))
    for step, cost in large.items():
        if isinstance(cost, dict) and cost["seconds"] > FEW_SECONDS:
            growth = cost["seconds"] / max(small[step]["seconds"], FEW_SECONDS / 10) / 10
            print(f"{step}: {cost['seconds']:.2f} s, an image's cost grows {growth:.2f} times")
            assert growth < GROWTH, step
    assert large["list_bytes_with_hashes"] / large["count"] < 120


def check_record(options):
    found = scale.measure(options, "record", 10_000_000)
    print(f"record of ten million steps: {found['file_bytes'] / 1e6:.1f} MB, {found['steps_read']:.0f} steps")
    assert found["file_bytes"] < 50e6 and found["checkpoint_bytes"] < 50e6
    assert found["read"]["seconds"] < 10 and found["page"]["seconds"] < 10 and found["page_bytes"] < 2e6


def check_classes(options):
    found = scale.measure(options, "classes", 100_000)
    for step, cost in found.items():
        assert not isinstance(cost, dict) or (cost["seconds"] < 10 and cost["peak_bytes"] < 1e9), (step, cost)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=6)
    parser.add_argument("--ranks", type=int, default=64)
    options = parser.parse_args()
    options.build = pathlib.Path(os.environ.get("KILN", ROOT / "build/release/kiln")).resolve().parent
    options.scratch = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
    options.ranks = [options.ranks]
    check_record(options)
    check_classes(options)
    check_images(options)
    assert scale.jobs(options) and scale.lost(options)


if __name__ == "__main__":
    main()
