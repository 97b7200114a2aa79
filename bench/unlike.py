#!/usr/bin/env python3
"""Whether a model tells pictures that are unlike its training images: `alike` beside the softmax's maximum and the energy.

    PYTHONPATH=… bench/unlike.py KILN DATA PHOTOS OUT [--networks NAME...] [--ways WAY...] [--epochs N] [--per-class N]

DATA holds class folders in train and in val, such as CIFAR-10 at 32x32; the last three classes are held out, of the others
half of the training images serve as others' weights. PHOTOS is any other folder of pictures. Each network learns the classes
from scratch, fine-tuned from those weights, and as a head on them (--freeze backbone). Of each model, a row: the area under
the ROC curve between validation images and the held-out classes, the photos, drawn shapes and noise, and the share of these
that is let through where 5 % of the validation images are refused. NumPy as for tests/parity. Writes a table as Markdown, and
every figure to OUT/figures.json. Energy: Liu et al., "Energy-based out-of-distribution detection", 2020, arXiv:2010.03759.
"""
import argparse
import csv
import json
import pathlib
import random
import shutil
import struct
import zlib

import numpy

from trust import link, run, tensors

SIDE, NUM_DRAWN, HELD_OUT = 32, 400, 3
RATES = {"vit_s_16": 0.001}  # others 0.05
OPTIMIZERS = {"vit_s_16": ["--optimizer", "adamw"]}


def png(pixels):
    """`pixels`: uint8 [height, width, 3]."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b""))


def drawn(folder, draw):
    folder.mkdir(parents=True)
    generator = numpy.random.default_rng(1)
    for number in range(NUM_DRAWN):
        (folder / f"{number}.png").write_bytes(png(draw(generator)))


def shape(generator):
    """A disc or a square on a plain ground."""
    colors = generator.integers(0, 256, (2, 3), dtype=numpy.uint8)
    x, y, radius = generator.uniform(10, 22, 2).tolist() + [generator.uniform(4, 10)]
    across, down = numpy.abs(numpy.arange(SIDE) - x), numpy.abs(numpy.arange(SIDE)[:, None] - y)
    is_in = numpy.maximum(across, down) < radius if generator.random() < 0.5 else numpy.hypot(across, down) < radius
    return colors[is_in.astype(int)]


def noise(generator):
    return generator.integers(0, 256, (SIDE, SIDE, 3), dtype=numpy.uint8)


def prepared(options):
    """Folders of images below OUT."""
    data = options.out / "data"
    if data.exists():
        return data
    part = options.out / "data.part"
    shutil.rmtree(part, ignore_errors=True)
    names = sorted(path.name for path in (options.data / "train").iterdir())
    for name in names[:-HELD_OUT]:
        images = sorted((options.data / "train" / name).iterdir())
        random.Random(name).shuffle(images)
        half = min(options.per_class, len(images) // 2)
        link(images[:half], part / "train")
        link(images[half:2 * half], part / "others")
        link(sorted((options.data / "val" / name).iterdir()), part / "val")
    for name in names[-HELD_OUT:]:
        link(sorted((options.data / "val" / name).iterdir()), part / "unlike" / "held-out classes")
    (part / "unlike" / "photos").symlink_to(options.photos)
    drawn(part / "unlike" / "shapes", shape)
    drawn(part / "unlike" / "noise", noise)
    part.rename(data)
    return data


def trained(options, network, way, data, weights):
    model = options.out / f"{network}-{way.replace(' ', '-')}"
    if model.exists():
        return model
    rate = RATES.get(network, 0.05)
    steps = [*OPTIMIZERS.get(network, ()), "--lr-schedule", "cosine", "--batch-size", 64, "--augment", "crop,flip", "--patience",
             1000, "--num-warmup-steps", 1]
    anew = ["--learning-rate", rate, "--epochs", options.epochs, *steps]
    words = {"others": anew, "from scratch": anew,
             "fine-tuned": ["--weights", weights, "--learning-rate", rate / 5, "--epochs", options.epochs // 2, *steps],
             "frozen": ["--weights", weights, "--freeze", "backbone"]}[way]
    run(options.kiln, "train", "--model-name", network, "--train-data-path", data / ("others" if way == "others" else "train"),
        "--valid-data-path", data / "val", "--trained-model-path", model, "--log-path", options.out / "logs", *words, "--auto",
        "False")
    return model


def head(model):
    """Weight [C, D] and bias [C] of the last layer."""
    last = [numpy.frombuffer(values, numpy.float32).reshape(shape) for name, shape, values in tensors(model)
            if name.startswith(("model.fc.", "model.classifier.3.", "model.head."))]
    return sorted(last, key=lambda values: -values.ndim)


def judged(options, model, images):
    """How unlike each image is, by three measures."""
    table, features = options.out / "scores.csv", options.out / "features.npy"
    run(options.kiln, "score", "--trained-model-path", model, "--data-path", images, "--output-path", table)
    run(options.kiln, "embed", "--trained-model-path", model, "--data-path", images, "--output-path", features)
    with open(table) as file:
        rows = [row for row in csv.DictReader(file) if row["confidence"]]
    weight, bias = head(model)
    values = numpy.load(features)
    logits = values[~numpy.isnan(values[:, 0])] @ weight.T + bias
    most = logits.max(1)
    energy = -(most + numpy.log(numpy.exp(logits - most[:, None]).sum(1)))
    return {"alike": -numpy.array([float(row["alike"]) for row in rows]),
            "softmax": -numpy.array([float(row["confidence"]) for row in rows]), "energy": energy}


def area(inside, outside):
    """Under the ROC curve; ties count half."""
    inside = numpy.sort(inside)
    below = numpy.searchsorted(inside, outside, "left") + numpy.searchsorted(inside, outside, "right")
    return float(below.mean() / 2 / len(inside))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("kiln", "data", "photos", "out"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--networks", nargs="+", default=["resnet18", "mobilenet_v3_large", "vit_s_16"])
    parser.add_argument("--ways", nargs="+", default=["from scratch", "fine-tuned", "frozen"])
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--per-class", type=int, default=1000)
    options = parser.parse_args()
    for name in ("kiln", "data", "photos", "out"):
        setattr(options, name, getattr(options, name).resolve())
    options.out.mkdir(parents=True, exist_ok=True)
    data, figures = prepared(options), {}
    for network in options.networks:
        weights = trained(options, network, "others", data, None)
        for way in options.ways:
            model = trained(options, network, way, data, weights)
            inside = judged(options, model, data / "val")
            figures[f"{network}, {way}"] = row = {}
            for unlike in sorted((data / "unlike").iterdir()):
                outside = judged(options, model, unlike)
                row[unlike.name] = {
                    measure: [area(inside[measure], outside[measure]),
                              float((outside[measure] <= numpy.quantile(inside[measure], 0.95)).mean())] for measure in inside}
            (options.out / "figures.json").write_text(json.dumps(figures, indent=1))
    sets = list(next(iter(figures.values())))
    print(f"| model | measure | {' | '.join(sets)} | mean |\n|---|---|{'---|' * (len(sets) + 1)}")
    for name, row in figures.items():
        for measure in ("alike", "softmax", "energy"):
            cells = [row[unlike][measure] for unlike in sets]
            print(f"| {name} | {measure} | " + " | ".join(f"{one:.3f}, {100 * through:.0f} %" for one, through in cells)
                  + f" | {sum(one for one, _ in cells) / len(cells):.3f} |")


if __name__ == "__main__":
    main()
