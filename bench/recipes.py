#!/usr/bin/env python3
"""What the modern recipe is worth at any length of a run: a plan of runs that resumes, and the tables of docs/recipes.md.

    bench/recipes.py KILN DATA OUT [--stage search|final|parts|photos …] [--jobs N] [--results FILE]
    bench/recipes.py tables|picture [--results FILE]

DATA holds train.tar and val.tar with class folders, such as ../shared/data/cifar10-20k (20,000 and 4,000 images of 32x32).
The training images are divided by class, once: 4,000 to search with, 4,000 set aside for the last table, 12,000 to train
that table's models on; the search is judged by val. DATA/../photos, with class folders in train/ and val/, shows whether photos
of 128 pixels tell the same. The network is a ResNet-18 with fresh weights. A run has one compute thread (the bits depend on it)
and --precision bf16, for both recipes; --jobs of them run side by side.

Each run adds a line to FILE (bench/recipes.jsonl), and a second start goes on with what is missing. Accuracies do not depend
on what else the machine does, seconds do. Hours of both cores of a Xeon with AMX, nothing else running (`--jobs 2`):
search 2.5, final 4.5, parts 2, photos a quarter.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import threading
import time

NETWORK = "resnet18"
PARTS = {"search": 400, "aside": 400, "final": None}  # images a class of train.tar; None: what is left
# Of a stage: to train on, to judge.
SETS = {"search": ("search", "val"), "final": ("final", "aside"), "parts": ("search", "val"), "photos": ("photos/train", "photos/val")}
SEEDS = (1, 2, 3)
DESIGNER_RATES = (0.0001, 0.0003, 0.001)  # for each image of a batch
FAST = [(5, 128), (15, 128)]  # epochs and batch
SEARCHED = [*FAST, (5, 32), (15, 32), (40, 128)]
LONG = [*FAST, (40, 128)]
FINAL = [(5, 32), (5, 128), (15, 32), (15, 128), (40, 128)]
CELLS = {"final": FINAL, "photos": [(40, 16)]}

# What --recipe modern set before its numbers followed from the length of a run; rate for each image of a batch, warm-up as a
# share of the run.
BEFORE = {"rate": 0.001, "weight-decay": 0.00005, "warmup": 0.1, "ema": 0.999, "mixup": 0.1, "label-smoothing": 0.1,
          "augment": "standard", "zero-init-residual": True}
LEAN = {**BEFORE, "ema": 0, "mixup": 0, "label-smoothing": 0}
FLIP = {**LEAN, "augment": "flip", "zero-init-residual": False, "rate": 0.0003}
WARM = {**FLIP, "warmup": 0.3, "weight-decay": 0.005}
SEARCH = [  # what is tried, and where: single seeds, so that only large differences say anything
    (WARM, SEARCHED), ({**WARM, "rate": 0.001}, SEARCHED), ({**WARM, "warmup": 0.5}, FAST), ({**WARM, "warmup": 0.1}, [(40, 128)]),
    ({**WARM, "augment": "standard"}, [(40, 128)]), ({**WARM, "label-smoothing": 0.1, "mixup": 0.1}, [(40, 128)]),
    ({**WARM, "ema": 0.99}, [(40, 128)]), ({**WARM, "weight-decay": 0.0005}, LONG),
    (BEFORE, [*FAST, (5, 32)]), (LEAN, [*FAST, (5, 32)]),
    (FLIP, [*FAST, (5, 32), (15, 32)]), ({**FLIP, "zero-init-residual": True}, FAST),
    ({**FLIP, "augment": "standard"}, FAST), ({**FLIP, "rate": 0.001}, FAST),
    ({**FLIP, "augment": "none"}, FAST),
    ({**FLIP, "weight-decay": 0.0005}, FAST),
    ({**FLIP, "weight-decay": 0.005}, FAST),
    ({**FLIP, "ema": 0.95}, FAST),
    ({**FLIP, "label-smoothing": 0.1, "mixup": 0.1}, FAST),
    ({**FLIP, "warmup": 0}, FAST), ({**FLIP, "warmup": 0.3}, FAST),
    ({**FLIP, "lr-schedule": "polynomial"}, FAST),
]
MODERN = "--recipe modern"
EXEMPT = f"{MODERN} --no-decay norm-and-bias"  # which modern set before
AVERAGED = f"{MODERN} --ema 0.978495"  # likewise, in 465 steps
SMOOTHED = f"{MODERN} --label-smoothing 0.1"  # likewise, in 40 epochs
LEFT_OUT = {cell: [whole, *(f"{whole} {words}" for words in parts)] for cell, whole, parts in (
    ((5, 128), MODERN, ("--no-decay norm-and-bias",)),
    ((5, 32), MODERN, ("--ema 0", "--no-decay norm-and-bias")),
    ((25, 128), MODERN, ("--ema 0",)),
    ((15, 32), MODERN, ("--ema 0",)),
    ((15, 128), AVERAGED, ("--augment none", "--lr-schedule polynomial", "--num-warmup-steps 0", "--weight-decay 0.0001",
                           "--no-decay norm-and-bias")),
    ((40, 128), SMOOTHED, ("--mixup 0", "--ema 0", "--no-decay norm-and-bias")))}
LEFT_OUT[15, 128].append(MODERN)
LEFT_OUT[40, 128] += [MODERN, f"{MODERN} --mixup 0"]
KEY = ("stage", "recipe", "epochs", "batch", "seed")


def searched(changes, epochs, batch):
    """The words of a recipe of SEARCH, every number given."""
    given = dict(changes)
    words = {"learning-rate": f"{given.pop('rate') * batch:g}", "num-warmup-steps": f"{given.pop('warmup') * epochs:g}", **given}
    return EXEMPT + "".join(f" --{name} {value}" for name, value in words.items())


def designer(batch):
    return [f"--learning-rate {rate * batch:g}" for rate in DESIGNER_RATES]


def mean_of(rows, **wanted):
    found = [row["top1"] for row in rows if all(row[name] == value for name, value in wanted.items())]
    return statistics.mean(found) if found else None


def best_of_designer(rows, stage, epochs, batch):
    """The words of its best rate by the first seed; None: not known yet."""
    tops = {words: mean_of(rows, stage=stage, recipe=words, epochs=epochs, batch=batch, seed=1) for words in designer(batch)}
    return None if None in tops.values() else max(tops, key=tops.get)


def plan(stage, rows):
    """Every run of a stage that is known by now, the most telling first: (recipe, epochs, batch, seed)."""
    if stage == "search":
        yield from ((words, epochs, batch, 1) for epochs, batch in FAST for words in designer(batch))
        for cells in (FAST, LONG, SEARCHED):
            yield from ((searched(changes, *cell), *cell, 1) for changes, tried in SEARCH for cell in tried if cell in cells)
        yield from ((words, 5, 32, 1) for words in designer(32))
    elif stage in CELLS:
        for epochs, batch in CELLS[stage]:
            yield from ((words, epochs, batch, 1) for words in (MODERN, *designer(batch)))
        for seed in SEEDS[1:]:
            for epochs, batch in CELLS[stage]:
                yield MODERN, epochs, batch, seed
                if best := best_of_designer(rows, stage, epochs, batch):
                    yield best, epochs, batch, seed
        if stage == "final" and (best := best_of_designer(rows, stage, 5, 128)):  # bf16 in all other runs
            yield from ((f"{best} --precision fp32", 5, 128, seed) for seed in SEEDS)
    else:
        for seed in SEEDS:
            yield from ((words, *cell, seed) for cell, recipes in LEFT_OUT.items() for words in recipes)
        yield f"{SMOOTHED} --no-decay norm-and-bias --augment standard", 40, 128, 1


def divided(data, out):
    """The folders of images, made once."""
    if (out / "data").exists():
        return out / "data"
    shutil.rmtree(out / "unpacking", ignore_errors=True)
    for tar in ("train", "val"):
        with tarfile.open(data / f"{tar}.tar") as archive:
            members = sorted((member for member in archive if member.isfile()), key=lambda member: member.name)
            by_class = {}
            for member in members:
                by_class.setdefault(pathlib.PurePath(member.name).parts[-2], []).append(member)
            for name, images in by_class.items():
                random.Random(f"kiln {name}").shuffle(images)
                for part, count in PARTS.items() if tar == "train" else [("val", None)]:
                    folder = out / "unpacking" / part / name
                    folder.mkdir(parents=True)
                    for member in images[:count]:
                        (folder / pathlib.PurePath(member.name).name).write_bytes(archive.extractfile(member).read())
                    images = images[count:] if count else []
    (out / "unpacking").rename(out / "data")
    return out / "data"


def trained(options, stage, recipe, epochs, batch, seed):
    """The row of one run."""
    place = options.out / f"run-{threading.get_native_id()}"
    shutil.rmtree(place, ignore_errors=True)
    folders = options.data.parent if stage == "photos" else options.folders
    train, judge = (folders / part for part in SETS[stage])
    words, model = recipe.split(), ["--model-name", NETWORK]
    if "--zero-init-residual" in words:  # an option of init-model
        at = words.index("--zero-init-residual")
        model = ["--untrained-model-path", place / "untrained"]
        subprocess.run([options.kiln, "init-model", NETWORK, *words[at:at + 2], *model], capture_output=True, check=True)
        del words[at:at + 2]
    words = [options.kiln, "train", *model, "--train-data-path", train, "--valid-data-path", judge,
             "--trained-model-path", place / "model", "--log-path", place / "logs", "--epochs", epochs, "--batch-size", batch,
             "--random-seed", seed, "--patience", 100000, "--threads", 1, *words]
    if stage == "photos":
        words += ["--image-size", 128]
    if "--precision" not in recipe:
        words += ["--precision", "bf16"]
    begin = time.perf_counter()
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    training = json.loads((place / "model/training.json").read_text())
    course = [round(epoch["top1"], 5) for epoch in training["epochs"]]
    shutil.rmtree(place)
    return {"stage": stage, "recipe": recipe, "epochs": epochs, "batch": batch, "seed": seed,
            "images": sum(1 for _ in train.glob("*/*")), "top1": course[training["saved_epoch"] - 1], "course": course,
            "seconds": round(time.perf_counter() - begin), "program": options.program, "date": time.strftime("%Y-%m-%d")}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def work(options, lock, running):
    """Runs what is missing until nothing is."""
    while True:
        with lock:
            rows = read(options.results)
            taken = {tuple(row[name] for name in KEY) for row in rows} | running
            task = next(((stage, *run) for stage in options.stage for run in plan(stage, rows) if (stage, *run) not in taken), None)
            if task is None:
                return
            running.add(task)
        row = trained(options, *task)
        with lock, open(options.results, "a") as file:
            print(json.dumps(row), file=file, flush=True)
            print(f"{row['top1']:.4f} {row['seconds']:5} s  {' '.join(map(str, task))}", file=sys.stderr, flush=True)


def figure(values, is_signed=False):
    """Mean and, of more than one, standard error, in points."""
    text = f"{100 * statistics.mean(values):{'+' if is_signed else ''}.1f}"
    return text if len(values) < 2 else f"{text} ± {100 * statistics.stdev(values) / len(values) ** 0.5:.1f}"


def tables(rows):
    def tops(stage, recipe, cell):
        return [row["top1"] for row in rows if (row["stage"], row["recipe"], row["epochs"], row["batch"]) == (stage, recipe, *cell)]
    cells = " | ".join(f"{epochs} epochs, {batch}" for epochs, batch in SEARCHED)
    print(f"| searched (4,000 images, one seed) | {cells} |\n|---|{'---|' * len(SEARCHED)}")
    lines = [(f"designer, rate {rate:g} x batch", [designer(batch)[place] for _, batch in SEARCHED])
             for place, rate in enumerate(DESIGNER_RATES)]
    for changes, _ in SEARCH:
        changed = " ".join(f"{name} {value}" for name, value in changes.items() if FLIP.get(name) != value)
        lines.append((changed or "flips, cosine from 0.0003 x batch, no averages, mixup and smoothing",
                      [searched(changes, *cell) for cell in SEARCHED]))
    for name, recipes in lines:
        found = [tops("search", recipe, cell) for recipe, cell in zip(recipes, SEARCHED, strict=True)]
        print(f"| {name} | {' | '.join(figure(values) if values else '' for values in found)} |")
    print("\n| run on 12,000 images, and on photos | designer, best rate | modern | difference |\n|---|---|---|---|")
    for stage, cell in ((stage, cell) for stage, cells in CELLS.items() for cell in cells):
        best = best_of_designer(rows, stage, *cell)
        theirs, ours = tops(stage, best, cell), tops(stage, MODERN, cell)
        if theirs and ours:
            error = sum(statistics.variance(values) / len(values) if len(values) > 1 else 0 for values in (theirs, ours)) ** 0.5
            print(f"| {cell[0]} epochs, batches of {cell[1]} | {figure(theirs)} ({best}) | {figure(ours)} | "
                  f"{100 * (statistics.mean(ours) - statistics.mean(theirs)):+.1f} ± {100 * error:.1f} |")
    print("\n| run on 4,000 images | top-1 | against the cell's first, same seeds |\n|---|---|---|")
    for cell, recipes in LEFT_OUT.items():
        def runs(recipe, cell=cell):
            return {row["seed"]: row["top1"] for row in rows
                    if (row["stage"], row["recipe"], row["epochs"], row["batch"]) == ("parts", recipe, *cell)}
        whole = runs(recipes[0])
        for recipe in recipes:
            if found := {seed: top for seed, top in runs(recipe).items() if seed in whole}:
                gains = [top - whole[seed] for seed, top in found.items()]
                print(f"| {cell[0]} epochs, batches of {cell[1]}, {recipe} | {figure(list(found.values()))} | "
                      f"{figure(gains, True) if recipe != recipes[0] else ''} |")


def picture(rows):
    """Top-1 over the epochs in batches of 128, the mean of the seeds, for each length: docs/recipes.svg."""
    left, right, top, bottom, top1 = 44, 574, 20, 276, 0.8
    cells = [(epochs, batch) for epochs, batch in FINAL if batch == 128]
    longest = max(epochs for epochs, _ in cells)

    def place(epoch, value):
        return f"{left + (right - left) * epoch / longest:.1f},{bottom - (bottom - top) * value / top1:.1f}"

    lines = []
    for tenth in range(0, 9, 2):
        y = place(0, tenth / 10).split(",")[1]
        lines += [f'<path class="grid" d="M{left} {y}H{right}"/>',
                  f'<text x="{left - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{10 * tenth} %</text>']
    for epoch in (1, 5, *range(10, longest + 1, 10)):
        lines.append(f'<text x="{place(epoch, 0).split(",")[0]}" y="{bottom + 18}" text-anchor="middle">{epoch}</text>')
    lines.append(f'<text x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">epoch</text>')
    for name in ("designer", "modern"):
        for cell in cells:
            recipe = MODERN if name == "modern" else best_of_designer(rows, "final", *cell)
            courses = [row["course"] for row in rows
                       if (row["stage"], row["recipe"], row["epochs"], row["batch"]) == ("final", recipe, *cell)]
            mean = [statistics.mean(values) for values in zip(*courses, strict=True)]
            lines.append(f'<polyline class="{name}" points="{" ".join(place(i + 1, value) for i, value in enumerate(mean))}"/>')
        x, y = place(longest, mean[-1]).split(",")
        lines.append(f'<text class="{name}-name" x="{float(x) + 6:.1f}" y="{float(y) + 4:.1f}">{name}</text>')
    colors = {"designer": ("#b8621b", "#f0a35e"), "modern": ("#1f6fb4", "#6ab0f3")}
    light, dark = ("".join(f".{name}{{stroke:{pair[shade]}}}.{name}-name{{fill:{pair[shade]}}}" for name, pair in colors.items())
                   for shade in (0, 1))
    print('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 320" width="640" role="img" aria-label="Top-1 over the epochs">'
          f"<style>text{{font:12px sans-serif;fill:#444}}.grid{{stroke:#8884;fill:none}}polyline{{fill:none;stroke-width:1.5}}{light}"
          f"@media(prefers-color-scheme:dark){{text{{fill:#bbb}}{dark}}}</style>")
    print("\n".join([*lines, "</svg>"]))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kiln", help="the program, or the word tables or picture")
    parser.add_argument("data", type=pathlib.Path, nargs="?")
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--stage", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path(__file__).with_suffix(".jsonl"))
    options = parser.parse_args()
    if options.kiln in ("tables", "picture"):
        return {"tables": tables, "picture": picture}[options.kiln](read(options.results))
    os.environ["OMP_WAIT_POLICY"] = "passive"
    options.program = subprocess.run([options.kiln, "--version"], capture_output=True, text=True, check=True).stdout.split()[3]
    options.folders = divided(options.data, options.out.resolve())
    options.out = options.out.resolve()
    lock, running = threading.Lock(), set()
    workers = [threading.Thread(target=work, args=(options, lock, running)) for _ in range(options.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
