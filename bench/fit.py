#!/usr/bin/env python3
"""Which --fit suits pictures that a center crop would cut: the table of docs/recipes.md. Needs Pillow.

    bench/fit.py KILN DATA OUT      runs what is missing in OUT/results.jsonl, then prints the table
    bench/fit.py table OUT

DATA holds photos/ and cifar10-small/, with class folders in train and val, and cifar10-20k/train.tar, as in ../shared/data.
Square pictures are pasted at random places onto wider ones of a plain random color: those of four classes of CIFAR-10 (100 a
class to train on, 100 to judge by; 32 pixels), and the centers of photos (228 and 56, of three classes; 96 pixels). ResNet-18
is trained on them at 64 pixels with each --fit: from scratch with --recipe modern, which crops at random only where --fit
crops; and with --auto from weights of the six other classes of CIFAR-10, whose first epoch is a frozen backbone and whose
last one is fine-tuned. One compute thread, bf16. About an hour of a core with AVX512-BF16.
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tarfile

SHAPES = {"3:1": 3.0, "16:9": 16 / 9, "4:3": 4 / 3}
FITS, SEEDS = ("crop", "pad", "stretch"), (1, 2, 3)
WAYS = ("from scratch", "fine-tuned", "frozen")
HELD_OUT = ("frog", "horse", "ship", "truck")
EPOCHS = {"cifar": (10, 3), "photos": (16, 4)}  # from scratch, fine-tuned
COMMON = ["--model-name", "resnet18", "--image-size", 64, "--batch-size", 16, "--threads", 1, "--loader-threads", 1, "--device",
          "cpu", "--precision", "bf16"]


def run(kiln, *words):
    done = subprocess.run([str(kiln), *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    if done.returncode != 0:
        sys.exit(f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def train(kiln, out, *words):
    """Top-1 after each epoch."""
    run(kiln, "train", *COMMON, *words, "--trained-model-path", out / "model", "--log-path", out / "logs")
    return [epoch["top1"] for epoch in json.loads((out / "model/training.json").read_text())["epochs"]]


def write_pictures(data, folder):
    """folder/SOURCE/SHAPE/train and val."""
    from PIL import Image
    for source, path, side in (("cifar", data / "cifar10-small", 32), ("photos", data / "photos", 96)):
        for label in sorted(path.glob("*/*")):
            if source == "cifar" and label.name not in HELD_OUT:
                continue
            for file in sorted(label.iterdir())[:100]:
                picture = Image.open(file).convert("RGB")
                short = min(picture.size)
                left, top = (picture.width - short) // 2, (picture.height - short) // 2
                picture = picture.crop((left, top, left + short, top + short)).resize((side, side), Image.Resampling.BICUBIC)
                for shape, ratio in SHAPES.items():
                    draws = random.Random(f"{file.name} {shape}")
                    wide = Image.new("RGB", (round(side * ratio), side), tuple(draws.randrange(256) for _ in range(3)))
                    wide.paste(picture, (draws.randrange(wide.width - side + 1), 0))
                    target = folder / source / shape.replace(":", "x") / label.parent.name / label.name / f"{file.stem}.png"
                    target.parent.mkdir(parents=True, exist_ok=True)
                    wide.save(target)


def weights(kiln, data, out):
    """Of a network that has seen the six other classes, 1,000 images each."""
    if not (out / "weights/model").exists():
        counts = {}
        with tarfile.open(data / "cifar10-20k/train.tar") as archive:
            for member in archive:
                label = member.name.split("/")[-2] if member.isfile() else ""
                counts[label] = counts.get(label, 0) + 1
                if label and label not in HELD_OUT and counts[label] <= 1000:
                    archive.extract(member, out / "others", filter="data")
        train(kiln, out / "weights", "--data-path", next((out / "others").rglob("cat")).parent, "--epochs", 4, "--recipe", "modern",
              "--augment", "standard")
    return out / "weights/model"


def table(out):
    found = {}
    for line in open(out / "results.jsonl"):
        run = json.loads(line)
        found.setdefault((run["source"], run["shape"], run["way"], run["fit"]), []).append(100 * run["top1"])
    print("| images | shape | | crop | pad | stretch |\n|---|---|---|---|---|---|")
    for source in EPOCHS:
        for shape in SHAPES:
            for way in WAYS:
                cells = [found.get((source, shape, way, fit), []) for fit in FITS]
                print(f"| {source} | {shape} | {way} | " + " | ".join(
                    f"{statistics.mean(cell):.1f} ({min(cell):.1f} to {max(cell):.1f})" if cell else "" for cell in cells) + " |")


def main():
    if sys.argv[1:2] == ["table"] and len(sys.argv) == 3:
        return table(pathlib.Path(sys.argv[2]))
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    kiln, data, out = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    out.mkdir(exist_ok=True)
    results = out / "results.jsonl"
    if not (out / "images").exists():
        write_pictures(data, out / "images")
    given = weights(kiln, data, out)
    done = [tuple(json.loads(line)[key] for key in ("source", "shape", "way", "fit", "seed"))
            for line in open(results)] if results.exists() else []

    def note(source, shape, way, fit, seed, top1):
        with open(results, "a") as file:
            file.write(json.dumps({"source": source, "shape": shape, "way": way, "fit": fit, "seed": seed, "top1": top1}) + "\n")

    for seed in SEEDS:
        for shape in SHAPES:
            for source, (epochs, more_epochs) in EPOCHS.items():
                pictures = out / "images" / source / shape.replace(":", "x")
                for fit in FITS:
                    if (source, shape, "fine-tuned", fit, seed) in done:
                        continue
                    common = ["--train-data-path", pictures / "train", "--valid-data-path", pictures / "val", "--fit", fit,
                              "--random-seed", seed]
                    note(source, shape, "from scratch", fit, seed,
                         train(kiln, out / "run", *common, "--recipe", "modern", "--save", "last", "--epochs", epochs)[-1])
                    top1 = train(kiln, out / "run", *common, "--weights", given, "--auto", "True", "--epochs", more_epochs)
                    note(source, shape, "frozen", fit, seed, top1[0])
                    note(source, shape, "fine-tuned", fit, seed, top1[-1])
    table(out)


main()
