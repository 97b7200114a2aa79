#!/usr/bin/env python3
"""Whether `kiln select` chooses images better than chance: rounds of labeling, each a head on frozen features.

    bench/labeling.py KILN DATA WEIGHTS OUT [--rounds 5] [--seeds 5] [--first 50] [--number 50] [--pool N]

DATA holds class folders in train and in val, such as CIFAR-10; WEIGHTS is what `kiln train --weights` takes, without a
seen_images.bin that has images of DATA: `kiln select` would take those for labeled ones. Of each seed, the same --first images
are labeled at the start; then, in each round, --number more: once those that `kiln select` names, once drawn at random. After
each round a head is fitted to all labeled images (--freeze backbone) and measured on val. --pool N: only so many training
images of each seed, drawn at random. Writes the curve as a table in Markdown, mean and spread over the seeds, the share of
seeds in which select was better, and every figure to OUT/figures.json. Standard library only.
"""
import argparse
import csv
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")


class Labeling:
    """One seed, one way to choose."""

    def __init__(self, options, seed, way):
        self.options, self.way, self.draw = options, way, random.Random(1000 + seed)
        self.place = options.out / f"{way}-{seed}"
        shutil.rmtree(self.place, ignore_errors=True)
        (self.place / "photos").mkdir(parents=True)
        images = sorted((options.data / "train").glob("*/*"))
        random.Random(seed).shuffle(images)
        self.truth = {}
        for path in images[:options.pool or len(images)]:
            self.truth[f"{len(self.truth):06}{path.suffix}"] = path.parent.name
            os.link(path, self.place / "photos" / f"{len(self.truth) - 1:06}{path.suffix}")
        # At least two of each class, so that every head knows all classes.
        by_class = {}
        for name, label in self.truth.items():
            by_class.setdefault(label, []).append(name)
        self.labeled = [name for names in by_class.values() for name in names[:2]]
        others = [name for name in self.truth if name not in set(self.labeled)]
        self.labeled += others[:max(0, options.first - len(self.labeled))]

    def accuracy(self):
        model = self.place / f"model-{len(self.labeled)}"
        with open(self.place / "labels.csv", "w", newline="") as file:
            csv.writer(file).writerows([("path", "label"), *((f"photos/{name}", self.truth[name]) for name in self.labeled)])
        run(self.options.kiln, "train", "--train-data-path", self.place / "labels.csv", "--valid-data-path", self.options.data / "val",
            "--weights", self.options.weights, "--freeze", "backbone", "--trained-model-path", model,
            "--log-path", self.place / "logs", *(["--image-size", self.options.image_size] if self.options.image_size else []))
        training = json.loads((model / "training.json").read_text())
        return model, training["epochs"][training["saved_epoch"] - 1]["top1"]

    def label_more(self, model):
        if self.way == "random":
            others = sorted(set(self.truth) - set(self.labeled))
            self.labeled += self.draw.sample(others, self.options.number)
            return
        table = model.with_suffix(".csv")
        run(self.options.kiln, "select", self.place / "photos", "--trained-model-path", model, "--number", self.options.number,
            "--output-path", table)
        with open(table, newline="") as file:
            chosen = [row["path"] for row in csv.DictReader(file)]
        # Validation images of the model are none of the pool, and labeled ones are in its seen_images.bin.
        assert not set(chosen) & set(self.labeled), "a labeled image was chosen"
        self.labeled += chosen

    def curve(self):
        """(labeled images, accuracy) of each round."""
        points = []
        for number in range(self.options.rounds + 1):
            model, accuracy = self.accuracy()
            points.append((len(self.labeled), accuracy))
            print(f"{self.place.name}: {points[-1][0]} labeled, {accuracy:.4f}", file=sys.stderr, flush=True)
            if number < self.options.rounds:
                self.label_more(model)
        return points


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("kiln", "data", "weights", "out"):
        parser.add_argument(name, type=pathlib.Path)
    for name, usual in (("rounds", 5), ("seeds", 5), ("first", 50), ("number", 50), ("pool", 0), ("image-size", 0)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    curves = {way: [Labeling(options, seed, way).curve() for seed in range(1, options.seeds + 1)] for way in ("select", "random")}
    (options.out / "figures.json").write_text(json.dumps(curves, indent=1))
    print("| labeled images | `kiln select` | random | select better |\n|---|---|---|---|")
    for number in range(options.rounds + 1):
        ours, theirs = ([100 * curve[number][1] for curve in curves[way]] for way in ("select", "random"))
        cells = [f"{statistics.mean(values):.1f} % ({min(values):.1f} to {max(values):.1f})" for values in (ours, theirs)]
        better = sum(a > b for a, b in zip(ours, theirs))
        print(f"| {curves['select'][0][number][0]} | {' | '.join(cells)} | {better} of {options.seeds} |")
    print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
