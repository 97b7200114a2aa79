#!/usr/bin/env python3
"""What weights of others are worth with few photos: accuracy and seconds of four ways to train on them.

    bench/few_photos.py KILN DATA OUT [--network NAME] [--held-out N] [--seeds N] [--pretraining-epochs N] [--epochs N]

DATA holds class folders in train and in val, such as CIFAR-10 at 32x32. A network (ResNet-18) is trained on all classes but
the last N first; its weights are those of others. Then 20, 50 and 100 images a class of the held-out ones are trained on,
from scratch, with a frozen backbone, with --auto and fine-tuned, and judged by all other images of these classes.
Writes a table as Markdown, and every figure to OUT/figures.json. Leave the machine alone meanwhile.
"""
import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

COUNTS = (20, 50, 100)
# Networks with LayerNorm take their first steps with AdamW.
PRETRAINING = {name: ["--optimizer", "adamw", "--learning-rate", 0.001] for name in ("convnext_tiny", "vit_s_16")}
SEED = 1


def run(*arguments):
    """Seconds that the command took."""
    begin = time.perf_counter()
    result = subprocess.run([str(argument) for argument in arguments], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return time.perf_counter() - begin


def link(images, folder):
    """`images`: (class name, file). Files of the two sets of DATA may have the same name."""
    for number, (name, image) in enumerate(images):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / f"{number}-{image.name}").symlink_to(image)


def images_of(data, names, sets):
    return [(name, image) for part in sets for name in names for image in sorted((data / part / name).iterdir())]


def pretrained(options, others):
    """The weights of a network that has seen the other classes alone."""
    model = options.out / "pretrained"
    if not model.exists():
        for part in ("train", "val"):
            link(images_of(options.data, others, [part]), options.out / "others" / part)
        run(options.kiln, "train", "--model-name", options.network, "--train-data-path", options.out / "others/train",
            "--valid-data-path", options.out / "others/val", "--trained-model-path", model, "--log-path",
            options.out / "pretraining-logs", "--epochs", options.pretraining_epochs, "--patience", 1000, "--batch-size",
            32, "--augment", "crop,flip", *PRETRAINING.get(options.network, ["--learning-rate", 0.05]))
    return model


def ways(options, weights):
    """The options of each way to train."""
    taken = ["--weights", weights]
    return {
        "from scratch": ["--epochs", options.epochs, "--patience", 1000, "--batch-size", 16, "--learning-rate", 0.02,
                         "--augment", "flip"],
        "frozen features": [*taken, "--freeze", "backbone"],
        "automatic": [*taken, "--auto", "True"],
        "fine-tuned": [*taken, "--epochs", options.epochs, "--patience", 1000, "--batch-size", 16,
                       "--learning-rate", 0.01, "--augment", "flip"],
    }


def measured(options, weights, names, count, seed):
    """By way: (accuracy on the images not trained on, seconds of the training)."""
    place = options.out / f"{count}-{seed}"
    shutil.rmtree(place, ignore_errors=True)
    generator = random.Random(f"{count} {seed}")
    few, rest = [], []
    for name in names:
        images = images_of(options.data, [name], ["train", "val"])
        generator.shuffle(images)
        few += images[:count]
        rest += images[count:]
    link(few, place / "few")
    link(rest, place / "rest")
    figures = {}
    for way, choices in ways(options, weights).items():
        model, page = place / way / "model", place / way / "page"
        seconds = run(options.kiln, "train", "--data-path", place / "few", "--model-name", options.network, "--trained-model-path",
                      model, "--log-path", place / way / "logs", "--random-seed", seed, *choices)
        run(options.kiln, "evaluate", "--trained-model-path", model, "--data-path", place / "rest", "--output-path", page)
        accuracy = json.loads((page / "evaluation.json").read_text())["models"][0]["top1"]
        figures[way] = (accuracy, seconds)
    return figures


def table(figures):
    print("| images a class | way | top-1 (lowest to highest) | seconds |\n|---|---|---|---|")
    for count in COUNTS:
        for way in figures[0]["ways"]:
            runs = [record["ways"][way] for record in figures if record["count"] == count]
            top1 = [100 * accuracy for accuracy, _ in runs]
            seconds = statistics.median(seconds for _, seconds in runs)
            print(f"| {count} | {way} | {statistics.mean(top1):.1f} % ({min(top1):.1f} to {max(top1):.1f}) | {seconds:.1f} |")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("kiln", type=pathlib.Path)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--network", default="resnet18")
    parser.add_argument("--held-out", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pretraining-epochs", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    options.data, options.out = options.data.resolve(), options.out.resolve()
    names = sorted(path.name for path in (options.data / "train").iterdir())
    others, held_out = names[:-options.held_out], names[-options.held_out:]
    weights = pretrained(options, others)
    figures = []
    for count in COUNTS:
        for seed in range(SEED, SEED + options.seeds):
            print(f"{count} images a class, seed {seed}", file=sys.stderr)
            figures.append({"count": count, "seed": seed, "ways": measured(options, weights, held_out, count, seed)})
            (options.out / "figures.json").write_text(json.dumps(figures, indent=1))
    table(figures)


if __name__ == "__main__":
    main()
