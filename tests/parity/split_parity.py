"""Kiln's counts of a stratified split beside scikit-learn's: split_parity.py TOOL (the program of split_tool.cpp).

Exit code 77: no scikit-learn.
"""
import collections
import math
import random
import subprocess
import sys
from pathlib import Path

PYTHON_PACKAGES = Path(__file__).resolve().parents[2] / ".deps" / "parity"
if PYTHON_PACKAGES.is_dir():
    sys.path.insert(0, str(PYTHON_PACKAGES))

try:
    from sklearn.model_selection import train_test_split
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)


def drawn(draw, number):
    """A fraction and the images of each class; every third of equal classes, whose shares tie."""
    classes = draw.randint(1, 20)
    most = draw.choice([3, 8, 40, 300])
    counts = [draw.randint(1, most)] * classes if number % 3 == 0 else [draw.randint(1, most) for _ in range(classes)]
    n = sum(counts)
    fraction = draw.choice([0.9, 0.8, 0.75, 0.5, 0.29, 0.1, 1 / 3, draw.random()])
    return (fraction, counts) if n > 1 and 1 / n <= fraction <= 1 - 1 / n else drawn(draw, number)


def theirs(fraction, counts):
    """The counts of the first part; None: there is no stratified split."""
    labels = [c for c, count in enumerate(counts) for _ in range(count)]
    size = max(1, math.floor(fraction * len(labels)))
    try:
        first, _ = train_test_split(labels, train_size=size, test_size=len(labels) - size, stratify=labels, random_state=42)
    except ValueError:
        return None
    found = collections.Counter(first)
    return [found[c] for c in range(len(counts))]


def main(tool):
    draw = random.Random(1)
    splits = [drawn(draw, number) for number in range(800)]
    text = "".join(f"{fraction!r} {' '.join(map(str, counts))}\n" for fraction, counts in splits)
    lines = subprocess.run([tool], input=text, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    num_random = 0
    for (fraction, counts), line in zip(splits, lines, strict=True):
        ours = None if line == "random" else list(map(int, line.split()))
        assert ours == theirs(fraction, counts), (fraction, counts, ours, theirs(fraction, counts))
        num_random += ours is None
    assert 50 < num_random < 600, f"{num_random} of the splits are not by class, which shows little"
    print(f"{len(splits)} splits with scikit-learn's counts, {num_random} of them not by class")


main(*sys.argv[1:])
