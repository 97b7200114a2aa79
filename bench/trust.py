#!/usr/bin/env python3
"""Whether what is said of a model from few images holds on images that it has never seen.

    bench/trust.py KILN TRAIN VALID OUT [--draws N] [--tuned N] [--jobs N] [--results FILE]
    bench/trust.py tables [--results FILE]
    bench/trust.py simulated      # the rules for a threshold, with confidences that are right as often as they say

TRAIN and VALID hold the same class folders, such as OUT/data/final and OUT/data/val of bench/recipes.py. A ResNet-18 learns
every second class. Of the other classes' images in TRAIN, 10, 20 or 50 a class are drawn anew for each subset, and all others
are held back. --draws subsets of each size (100) go through --freeze backbone --folds 5: is the held-back accuracy in the 95 %
interval, and of the answers above the threshold of "90 % right", are so many right? (All images pass through the same backbone
once, in PyTorch: PYTHONPATH as for tests/parity.)
--tuned subsets of each size (10) go through --auto True: how often is the worse of its two models kept?

Each subset adds a line to FILE (bench/trust.jsonl), and a second start goes on with what is missing.
"""
import argparse
import concurrent.futures
import csv
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import threading

COUNTS = (10, 20, 50)  # images a class
PROMISE = 0.9
SPREAD = 1.5  # images judged out of folds count as so many fewer: out_of_fold_interval() in src/record/run_summary.h
BACKBONE = ["--epochs", 20, "--batch-size", 128, "--learning-rate", 0.04, "--lr-schedule", "cosine", "--num-warmup-steps", 1,
            "--augment", "flip", "--patience", 1000]
TUNING = ["--epochs", 5, "--learning-rate", 0.0048, "--augment", "flip"]  # what --auto sets, from its own head
lock = threading.Lock()


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")


def link(images, folder):
    for image in images:
        place = folder / image.parent.name / image.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(image)


def tensors(model):
    """(name, shape, bytes) of each in a model directory."""
    data = (model / "model.safetensors").read_bytes()
    length, = struct.unpack("<Q", data[:8])
    for name, tensor in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            first, last = tensor["data_offsets"]
            yield name, tensor["shape"], data[8 + length + first:8 + length + last]


class Bench:
    def __init__(self, options):
        self.kiln, self.out, self.features = options.kiln, options.out.resolve(), None
        train, valid = options.train.resolve(), options.valid.resolve()
        names = sorted(path.name for path in train.iterdir())
        self.images = {name: sorted((train / name).iterdir()) for name in names[1::2]}
        self.all, self.backbone = self.out / "all", self.out / "backbone"
        if not self.all.exists():
            link([image for found in self.images.values() for image in found], self.out / "all.part")
            (self.out / "all.part").rename(self.all)
        if not self.backbone.exists():
            for side, folder in (("train", train), ("valid", valid)):
                shutil.rmtree(self.out / side, ignore_errors=True)
                link([image for name in names[::2] for image in sorted((folder / name).iterdir())], self.out / side)
            self.train("backbone", "--train-data-path", self.out / "train", "--valid-data-path", self.out / "valid", *BACKBONE)

    def train(self, name, *words):
        """The record of the run."""
        run(self.kiln, "train", "--model-name", "resnet18", "--trained-model-path", self.out / name, "--log-path",
            self.out / f"logs-{name}", "--threads", 1, *words)
        shutil.rmtree(self.out / f"logs-{name}")
        return json.loads((self.out / name / "training.json").read_text())

    def judged(self, name, drawn):
        """(confidence, whether it is right) of each held-back image."""
        table = self.out / f"{name}.csv"
        run(self.kiln, "score", "--data-path", self.all, "--trained-model-path", self.out / name, "--output-path", table,
            "--threads", 1, "--loader-threads", 1)
        with open(table) as file:
            rows = [(float(row["confidence"]), row["label"] == pathlib.PurePath(row["path"]).parent.name)
                    for row in csv.DictReader(file) if pathlib.PurePath(row["path"]).parts[-2:] not in drawn]
        table.unlink()
        return rows

    def all_features(self):
        """(features [N, D], labels [N], (class, name) of each image), the first two as torch's tensors."""
        import torch
        import torchvision
        from torchvision.transforms import v2
        torch.set_num_threads(1)
        model = torchvision.models.resnet18(num_classes=5)
        state = {name.removeprefix("model."): torch.frombuffer(bytearray(values), dtype=torch.float32).reshape(shape)
                 for name, shape, values in tensors(self.backbone) if not name.endswith("num_batches_tracked")}
        model.load_state_dict(state, strict=False)
        model.fc = torch.nn.Identity()
        model.eval()
        half = [0.5] * 3
        images = torchvision.datasets.ImageFolder(self.all, v2.Compose([
            v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(half, half)]))
        with torch.no_grad():
            pairs = [(model(batch), labels) for batch, labels in torch.utils.data.DataLoader(images, 250)]
        features, labels = (torch.cat(values) for values in zip(*pairs, strict=True))
        return features, labels, [pathlib.PurePath(path).parts[-2:] for path, _ in images.samples]

    def judged_head(self, name, drawn, temperature):
        """The same as judged(), for a head on the backbone's features."""
        import torch
        with lock:
            if self.features is None:
                self.features = self.all_features()
        features, labels, names = self.features
        weight, bias = (torch.frombuffer(bytearray(values), dtype=torch.float32).reshape(shape)
                        for end in ("fc.weight", "fc.bias")
                        for tensor, shape, values in tensors(self.out / name) if tensor.endswith(end))
        confidences, guesses = torch.softmax((features @ weight.T + bias) / temperature, 1).max(1)
        return [row for row, image in zip(zip(confidences.tolist(), (guesses == labels).tolist(), strict=True), names, strict=True)
                if image not in drawn]

    def draw(self, count, draw, name):
        """The images drawn, and the words that train on them."""
        shutil.rmtree(self.out / f"{name}-few", ignore_errors=True)
        chosen = random.Random(f"{count} {draw}")
        images = [image for found in self.images.values() for image in chosen.sample(found, count)]
        link(images, self.out / f"{name}-few")
        return ({image.parts[-2:] for image in images},
                ["--data-path", self.out / f"{name}-few", "--weights", self.backbone, "--random-seed", draw])

    def folds(self, count, draw):
        name = f"folds-{count}-{draw}"
        drawn, few = self.draw(count, draw, name)
        record = self.train(name, *few, "--freeze", "backbone", "--folds", 5)
        calibration = json.loads((self.out / name / "calibration.json").read_text())
        judged = self.judged_head(name, drawn, calibration["temperature"])
        answers = [[low, sum(1 for confidence, _ in judged if confidence >= low),
                    sum(right for confidence, right in judged if confidence >= low)] for low, *_ in calibration["answers"]]
        totals = record["out_of_fold"]["totals"]
        return {"right": totals["top1"], "images": totals["images"], "answers": calibration["answers"],
                "truth": sum(right for _, right in judged) / len(judged), "judged": len(judged), "answered": answers}

    def tuned(self, count, draw):
        name = f"tuned-{count}-{draw}"
        drawn, few = self.draw(count, draw, name)
        automatic = self.train(name, *few, "--auto", "True")
        self.train(f"{name}-head", *few, "--freeze", "backbone")
        self.train(f"{name}-tuned", *few[:2], *few[4:], "--weights", self.out / f"{name}-head", *TUNING, "--patience", 1000)
        tops = [sum(right for _, right in self.judged(f"{name}{way}", drawn)) for way in ("-head", "-tuned")]
        found = automatic["automatic"]
        said = {name: {"right": found[name]["top1"], "loss_sum": found[name]["loss_sum"]} for name in ("frozen", "tuned")}
        return {"kept": "tuned" if found["keeps_tuned"] else "head", "head": tops[0], "tuned": tops[1], "said": said}


def work(bench, path, kind, count, draw):
    row = {"kind": kind, "count": count, "draw": draw, **getattr(bench, kind)(count, draw)}
    for place in bench.out.glob(f"{kind}-{count}-{draw}*"):
        shutil.rmtree(place)
    with lock, open(path, "a") as file:
        print(json.dumps(row), file=file)


def wilson(hits, count, z=1.96):
    if count == 0:
        return 0, 1
    share, square = hits / count, z * z / count
    middle, half = share + square / 2, z * math.sqrt(share * (1 - share) / count + square / 4 / count)
    return (middle - half) / (1 + square), (middle + half) / (1 + square)


# The lowest threshold at which a rule takes its images to keep the promise; None: there is none.
RULES = {
    "right / answered": lambda right, answered: right / answered,
    "right / (answered + 1)": lambda right, answered: right / (answered + 1),
    "lower end of the 80 % interval": lambda right, answered: wilson(right, answered, 1.28)[0],
    "lower end of the 95 % interval": lambda right, answered: wilson(right, answered)[0],
}


# Whether to keep fine-tuning, by what both get on the validation images; --auto has the first.
CHOICES = {
    "no fewer right": lambda frozen, tuned: tuned["right"] >= frozen["right"],
    "more right": lambda frozen, tuned: tuned["right"] > frozen["right"],
    "a lower loss": lambda frozen, tuned: tuned["loss_sum"] < frozen["loss_sum"],
    "always": lambda frozen, tuned: True,
    "never": lambda frozen, tuned: False,
}


def threshold(rule, answers):
    best, answered, right = None, 0, 0
    for place, (_, images, hits) in reversed(list(enumerate(answers))):
        answered, right = answered + images, right + hits
        if images and rule(right, answered) >= PROMISE:
            best = place
    return best


def held(hits, count):
    low, high = wilson(hits, count)
    return f"{hits} of {count} ({100 * low:.0f} to {100 * high:.0f} %)"


def tables(rows):
    print("| images a class | said, mean | held-back, mean | in the 95 % interval |\n|---|---|---|---|")
    for count in COUNTS:
        runs = [row for row in rows if row["kind"] == "folds" and row["count"] == count]
        if runs:
            said, truth = (100 * sum(values) / len(runs) for values in ([row["right"] / row["images"] for row in runs],
                                                                        [row["truth"] for row in runs]))
            intervals = [(row, *wilson(row["right"] / SPREAD, row["images"] / SPREAD)) for row in runs]
            inside = sum(low <= row["truth"] <= high for row, low, high in intervals)
            print(f"| {count} | {said:.1f} % | {truth:.1f} % | {held(inside, len(runs))} |")
    print(f'\n| images a class | rule for "at {100 * PROMISE:g} % right" | runs that promise | kept on held-back images | '
          "right, mean | answered, mean |\n|---|---|---|---|---|---|")
    for count in COUNTS:
        for name, rule in RULES.items():
            found = [(row["answered"][place], row["judged"]) for row in rows if row["kind"] == "folds" and row["count"] == count
                     if (place := threshold(rule, row["answers"])) is not None]
            found = [(answered, right, judged) for (_, answered, right), judged in found if answered]
            if found:
                kept = sum(right / answered >= PROMISE for answered, right, _ in found)
                print(f"| {count} | {name} | {len(found)} | {held(kept, len(found))} | "
                      f"{100 * sum(right / answered for answered, right, _ in found) / len(found):.1f} % | "
                      f"{100 * sum(answered / judged for answered, _, judged in found) / len(found):.1f} % |")
    print("\n| images a class | keeps fine-tuning that has | kept | the worse one | points lost, mean (most) |\n|---|---|---|---|---|")
    for count in COUNTS:
        runs = [row for row in rows if row["kind"] == "tuned" and row["count"] == count]
        judged = next((row["judged"] for row in rows if row["count"] == count and row["kind"] == "folds"), 1)
        for name, keeps in {"--auto": None, **CHOICES}.items() if runs else ():
            kept = [row["kept"] if keeps is None else "tuned" if keeps(**row["said"]) else "head" for row in runs]
            lost = [100 * (max(row["head"], row["tuned"]) - row[way]) / judged for row, way in zip(runs, kept, strict=True)]
            print(f"| {count} | {name} | {kept.count('tuned')} of {len(runs)} | {sum(loss > 0 for loss in lost)} | "
                  f"{sum(lost) / len(lost):.1f} ({max(lost):.1f}) |")


# Of a sure and of an unsure model: the confidence of a drawn image, and (accuracy, share) of the answers from a confidence on.
SURE = (lambda draw: 1 - draw ** 4, lambda low: (1 - (1 - low) / 5, (1 - low) ** 0.25))
UNSURE = (lambda draw: 0.2 + 0.8 * draw ** 2,
          lambda low: (0.2 + 0.8 * (1 + (root := ((low - 0.2) / 0.8) ** 0.5) + root ** 2) / 3, 1 - root))


def simulated(draws=300):
    print("| model | images | rule for 90 % right | runs that promise | kept | answered, mean |\n|---|---|---|---|---|---|")
    chance = random.Random(1)
    for model, (confidence, truth) in {"sure": SURE, "unsure": UNSURE}.items():
        for images in (50, 250, 1000, 5000):
            found = {name: [] for name in RULES}
            for _ in range(draws):
                drawn = sorted((confidence(chance.random()) for _ in range(images)), reverse=True)
                answers = [[low, 1, int(chance.random() < low)] for low in reversed(drawn)]
                for name, rule in RULES.items():
                    if (place := threshold(rule, answers)) is not None:
                        found[name].append(truth(answers[place][0]))
            for name, rates in found.items():
                kept, shares = sum(rate >= PROMISE for rate, _ in rates), [share for _, share in rates]
                means = f"{held(kept, len(rates))} | {100 * sum(shares) / len(rates):.0f} %" if rates else " | "
                print(f"| {model} | {images} | {name} | {len(rates)} of {draws} | {means} |")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kiln", help="the program, or one of the words tables and simulated")
    for name in ("train", "valid", "out"):
        parser.add_argument(name, type=pathlib.Path, nargs="?")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--tuned", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path(__file__).with_suffix(".jsonl"))
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.results.read_text().splitlines()] if options.results.exists() else []
    if options.kiln in ("tables", "simulated"):
        return tables(rows) if options.kiln == "tables" else simulated()
    os.environ["OMP_WAIT_POLICY"] = "passive"
    bench = Bench(options)
    done = {(row["kind"], row["count"], row["draw"]) for row in rows}
    todo = [(kind, count, draw) for draw in range(1, options.draws + 1) for count in COUNTS
            for kind in ("folds", *(["tuned"] if draw <= options.tuned else [])) if (kind, count, draw) not in done]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in [pool.submit(work, bench, options.results, *task) for task in todo]:
            result.result()
    print(f"{len(todo)} subsets more", file=sys.stderr)


if __name__ == "__main__":
    main()
