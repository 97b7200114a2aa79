#!/usr/bin/env python3
"""What each part of the modern recipe buys and costs: top-1 and seconds of modern, of modern without each of its parts, of
modern with a part more, and of the designer's recipe, at equal epochs.

    bench/recipes.py KILN DATA OUT [--epochs N] [--batch-size N] [--seeds N] [--part-seeds N] [--only NAME …]

DATA holds class folders in train and in val, such as CIFAR-10 at 32x32; the network is a ResNet-18 with fresh weights.
Designer and modern are trained with --seeds seeds, the others with --part-seeds. Each run is kept in OUT, so that a second
start goes on with what is missing; --only NAME … takes some of the ways. Writes two tables as Markdown, the second with the
accuracy of both recipes over the epochs, the same as a picture to OUT/curves.svg, and every figure to OUT/figures.json. Leave
the machine alone meanwhile: seconds are of the whole command.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

NETWORK = "resnet18"
FIRST_SEED = 1
POINTS = 6  # of a course over the epochs
WIDTH, HEIGHT, MARGIN = 640, 320, 44  # of the picture

MODERN = ["--recipe", "modern"]
WAYS = {
    "designer": [],
    "designer, --augment standard": ["--augment", "standard"],
    "modern": MODERN,
    "modern, --learning-rate of the designer": [*MODERN, "--learning-rate", "0.001"],
    "modern, --lr-schedule polynomial": [*MODERN, "--lr-schedule", "polynomial"],
    "modern, --num-warmup-steps 0": [*MODERN, "--num-warmup-steps", "0"],
    "modern, --augment none": [*MODERN, "--augment", "none"],
    "modern, --label-smoothing 0": [*MODERN, "--label-smoothing", "0"],
    "modern, --mixup 0": [*MODERN, "--mixup", "0"],
    "modern, --ema 0": [*MODERN, "--ema", "0"],
    "modern, --no-decay none": [*MODERN, "--no-decay", "none"],
    "modern, --weight-decay of the designer": [*MODERN, "--weight-decay", "0.0001"],
    "modern, --zero-init-residual False": [*MODERN, "--zero-init-residual", "False"],
    "modern, --precision fp32": [*MODERN, "--precision", "fp32"],
    "modern, --cutmix 1": [*MODERN, "--cutmix", "1"],
    "modern, --augment strong": [*MODERN, "--augment", "strong"],
    "modern, --clip-norm 1": [*MODERN, "--clip-norm", "1"],
    "modern, --lr-schedule onecycle": [*MODERN, "--lr-schedule", "onecycle"],
    "modern, --optimizer adamw": [*MODERN, "--optimizer", "adamw"],
    "modern, --optimizer lars": [*MODERN, "--optimizer", "lars"],
    "designer, --learning-rate 0.01": ["--learning-rate", "0.01"],
}
WHOLE = ("designer", "modern")  # with more seeds, and with a course


def trained(options, way, seed):
    """The figures of one run, which is made unless it is there."""
    place = options.out / f"{list(WAYS).index(way):02}-{seed}"
    done = place / "figures.json"
    if done.exists():
        figures = json.loads(done.read_text())
        if figures["way"] == way:
            return figures
    shutil.rmtree(place, ignore_errors=True)
    words = [options.kiln, "train", "--model-name", NETWORK, "--train-data-path", options.data / "train", "--valid-data-path",
             options.data / "val", "--trained-model-path", place / "model", "--log-path", place / "logs", "--epochs",
             options.epochs, "--batch-size", options.batch_size, "--random-seed", seed, "--patience", 100000,
             *WAYS[way]]
    begin = time.perf_counter()
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    training = json.loads((place / "model/training.json").read_text())
    epochs = [epoch["top1"] for epoch in training["epochs"]]
    figures = {"way": way, "seed": seed, "seconds": time.perf_counter() - begin, "epochs": epochs,
               "top1": epochs[training["saved_epoch"] - 1], "words": [str(word) for word in WAYS[way]]}
    done.write_text(json.dumps(figures))
    shutil.rmtree(place / "model")
    return figures


def spread(values):
    """Mean, with the lowest and the highest where there are more of them."""
    text = f"{100 * statistics.mean(values):.1f} %"
    return text if len(values) == 1 else f"{text} ({100 * min(values):.1f} to {100 * max(values):.1f})"


def tables(figures):
    by_way = {way: [run for run in figures if run["way"] == way] for way in WAYS}
    by_way = {way: runs for way, runs in by_way.items() if runs}
    modern = {run["seed"]: run["top1"] for run in by_way.get("modern", [])}
    print("| recipe | top-1 | against modern, same seeds | seconds | seeds |\n|---|---|---|---|---|")
    for way, runs in by_way.items():
        top1 = [run["top1"] for run in runs]
        gains = [run["top1"] - modern[run["seed"]] for run in runs if run["seed"] in modern]
        difference = f"{100 * statistics.mean(gains):+.1f}" if gains and way != "modern" else ""
        seconds = statistics.median(run["seconds"] for run in runs)
        print(f"| {way} | {spread(top1)} | {difference} | {seconds:.0f} | {len(runs)} |")
    courses = {way: by_way[way] for way in WHOLE if way in by_way}
    if not courses:
        return
    count = len(next(iter(courses.values()))[0]["epochs"])
    epochs = sorted({max(1, round(count * point / POINTS)) for point in range(1, POINTS + 1)})
    print(f"\n| after epoch | {' | '.join(map(str, epochs))} |\n|---|{'---|' * len(epochs)}")
    for way, runs in courses.items():
        points = [spread([run["epochs"][epoch - 1] for run in runs]) for epoch in epochs]
        print(f"| {way} | {' | '.join(points)} |")


def picture(figures):
    """Top-1 of designer and modern over the epochs: a thin line per seed, a thick one for the mean."""
    courses = {way: [run["epochs"] for run in figures if run["way"] == way] for way in WHOLE}
    courses = {way: runs for way, runs in courses.items() if runs}
    count = len(next(iter(courses.values()))[0])
    top = max(max(run) for runs in courses.values() for run in runs)

    def at(epoch, value):
        x = MARGIN + (WIDTH - 2.5 * MARGIN) * (epoch - 1) / max(1, count - 1)
        return f"{x:.1f},{HEIGHT - MARGIN - (HEIGHT - 1.5 * MARGIN) * value / top:.1f}"

    def line(way, values, width):
        points = " ".join(at(epoch, value) for epoch, value in enumerate(values, 1))
        return f'<polyline class="{way}" stroke-width="{width}" points="{points}"/>'
    parts = []
    for value in range(0, int(100 * top) + 1, 10):
        x, y = at(1, value / 100).split(",")
        parts.append(f'<path class="grid" d="M{x} {y}H{WIDTH - 1.5 * MARGIN}"/>'
                     f'<text x="{float(x) - 6:.1f}" y="{float(y) + 4:.1f}" text-anchor="end">{value} %</text>')
    for epoch in sorted({1, *range(5, count + 1, 5)}):
        parts.append(f'<text x="{at(epoch, 0).split(",")[0]}" y="{HEIGHT - MARGIN + 18}" text-anchor="middle">{epoch}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">epoch</text>')
    for way, runs in courses.items():
        mean = [statistics.mean(values) for values in zip(*runs, strict=True)]
        parts += [line(way, run, 0.7) for run in runs] + [line(way, mean, 2.5)]
        x, y = at(count, mean[-1]).split(",")
        parts.append(f'<text class="{way}-name" x="{float(x) + 6:.1f}" y="{float(y) + 4:.1f}">{way}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" '
            'aria-label="Top-1 over the epochs">'
            "<style>text{font:12px sans-serif;fill:#444}.grid{stroke:#8884;fill:none}polyline{fill:none}"
            ".designer{stroke:#b8621b}.modern{stroke:#1f6fb4}.designer-name{fill:#b8621b}.modern-name{fill:#1f6fb4}"
            "@media(prefers-color-scheme:dark){text{fill:#bbb}.designer{stroke:#f0a35e}.modern{stroke:#6ab0f3}"
            ".designer-name{fill:#f0a35e}.modern-name{fill:#6ab0f3}}</style>" + "\n".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kiln", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--part-seeds", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    options = parser.parse_args()
    options.data, options.out = options.data.resolve(), options.out.resolve()
    figures = []
    for way in options.only:
        for seed in range(FIRST_SEED, FIRST_SEED + (options.seeds if way in WHOLE else options.part_seeds)):
            print(f"{way}, seed {seed}", file=sys.stderr, flush=True)
            figures.append(trained(options, way, seed))
            (options.out / "figures.json").write_text(json.dumps(figures, indent=1))
    tables(figures)
    if any(run["way"] in WHOLE for run in figures):
        (options.out / "curves.svg").write_text(picture(figures))


if __name__ == "__main__":
    main()
