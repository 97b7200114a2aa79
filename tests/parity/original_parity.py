"""Kiln's answers beside those of the component that it stands in for, read by that component's own reader.

    original_parity.py KILN score       its Score Image Model on models that kiln trained, and on the same images
    original_parity.py KILN evaluate    its Evaluate Model on what kiln scored
    original_parity.py KILN split       its Split Image Directory on the same images

KILN_ORIGINAL names the Python of an environment with azureml-designer-pytorch-modules, -cv-modules and, for evaluate,
-classic-modules; Python 3.8. Exit code 77: it is not set, or lacks them.
"""
import collections
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = "azureml.designer.modules."
SCORE = MODULES + "dl.pytorch.score.score_image_model.module_invoker"
TRANSFORM = MODULES + "computer_vision.transform."
SPLIT = MODULES + "computer_vision.preprocess.split_image_directory.split_image_directory"
EVALUATE = "azureml.studio.modules.ml.evaluate.evaluate_generic_module.evaluate_generic_module"
READER = ("import sys; from azureml.studio.core.io.data_frame_directory import load_data_frame_from_directory as load; "
          "load(sys.argv[1]).data.to_json(sys.argv[2], orient='table', index=False, double_precision=15)")
EXACT = 1e-5  # where nothing is resized, only the order of sums differs
RESIZED = 0.01  # pixels may differ by 1 of 255


def run(words, folder, **settings):
    with open(folder / "output", "w+", encoding="utf-8") as output:  # no pipe, which a process left behind would keep open
        done = subprocess.run([*map(str, words)], cwd=folder, stdout=output, stderr=subprocess.STDOUT, timeout=300,
                              env={**os.environ, **settings})
        if done.returncode != 0:
            output.seek(0)
            sys.exit(f"{' '.join(map(str, words))}\n{output.read()[-3000:]}")


class Original:
    """The component, run in a folder."""

    def __init__(self, folder):
        self.folder, self.python = folder, os.environ.get("KILN_ORIGINAL")
        if not self.python:
            self.skip("KILN_ORIGINAL is not set")

    @staticmethod
    def skip(why):
        print(f"SKIPPED: {why}")
        sys.exit(77)

    def need(self, module):
        found = subprocess.run([self.python, "-c", f"import {module}"], capture_output=True, text=True)
        if found.returncode != 0:
            self.skip(f"{self.python} cannot import {module}: {found.stderr.strip().splitlines()[-1]}")

    def run(self, module, *arguments):
        run([self.python, *module.split(), *arguments], self.folder, PYTHONWARNINGS="ignore", MPLBACKEND="Agg")

    def score(self, images):
        shutil.rmtree(self.folder / "theirs", ignore_errors=True)  # it replaces nothing
        self.run("-m " + SCORE, "--trained-model", "model", "--dataset", images, "--scored-dataset", "theirs")

    def table(self, directory):
        """Columns and rows of a DataFrameDirectory."""
        self.run("-c", READER, directory, "table.json")
        read = json.loads((self.folder / "table.json").read_text())
        return [field["name"] for field in read["schema"]["fields"]], read["data"]


class Kiln:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments):
        run([self.program, *arguments], self.folder)

    def train(self, network, images, *options):
        self.run("init-model", network, "--untrained-model-path", "untrained")
        self.run("train", "--untrained-model-path", "untrained", "--train-data-path", images, "--valid-data-path", images,
                 "--trained-model-path", "model", "--epochs", 2, "--batch-size", 8, "--learning-rate", 0.003, "--device", "cpu",
                 *options)

    def draw(self, size, classes):
        """Labeled images as an ImageDirectory, the only form that the component scores."""
        name = f"{classes}-classes-{size}"
        self.run("demo-data", "--output-path", name, "--images", 16 * classes, "--classes", classes, "--size", size)
        self.run("convert", "--input-path", name + "/train", "--output-path", name + "-directory")
        return name + "-directory"

    def score(self, images, *options):
        self.run("score", "--trained-model-path", "model", "--data-path", images, "--scored-dataset", "ours", "--output-path",
                 "ours.csv", "--raw", "--all-classes", *options)
        with open(self.folder / "ours.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def same_meaning(folder):
    """All files of a DataFrameDirectory but the values."""
    ours, theirs = folder / "ours", folder / "theirs"
    for name in ("_meta.yaml", "schema/_schema.json"):
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    shown = [json.loads((path / "_data.visualization").read_text())["data"] for path in (ours, theirs)]
    for table in shown:
        del table["records"]
    assert shown[0] == shown[1], shown


def compare(title, original, rows, close):
    """The component's answers in theirs/, kiln's in ours/ and as `rows` of CSV; the largest difference of a probability."""
    columns, ours = original.table("ours")
    their_columns, theirs = original.table("theirs")
    assert columns == their_columns, (columns, their_columns)
    same_meaning(original.folder)
    prefix = "Scored Probabilities_"
    labels = [name.removeprefix(prefix) for name in columns if name.startswith(prefix)]
    worst = spread = 0.0
    for mine, other, row in zip(ours, theirs, rows, strict=True):
        assert (mine["id"], mine["category"]) == (other["id"], other["category"]), (mine, other)
        assert mine["category"] == row["true_label"], (mine, row)
        probabilities = [other[prefix + label] for label in labels]
        for label, probability in zip(labels, probabilities, strict=True):
            worst = max(worst, *(abs(value - probability) for value in (mine[prefix + label], float(row["probability_" + label]))))
        best, second = sorted(probabilities)[-1:-3:-1]
        if best - second > 2 * close:
            assert mine["Scored Labels"] == other["Scored Labels"] == row["label"], (mine, other, row)
        spread = max(spread, abs(probabilities[0] - theirs[0][prefix + labels[0]]))
    assert worst < close, f"{title}: a probability is {worst} from the component's"
    assert spread > max(0.02, 10 * worst), f"{title}: the answers are all alike, which shows nothing"
    print(f"{title}: {len(rows)} images, probabilities within {worst:.1e}")


def check_score(kiln, original):
    original.need(MODULES + "dl.pytorch.score")
    images = kiln.draw(32, 3)
    for network in ("resnet18", "densenet121"):
        kiln.train(network, images)
        original.score(images)
        compare(network, original, kiln.score(images), EXACT)
    # The component never resizes: it needs its own Apply Image Transformation first. Kiln resizes as validation did.
    images = kiln.draw(48, 3)
    kiln.train("resnet18", images, "--image-size", 32, "--eval-resize", 40)
    original.run(f"-m {TRANSFORM}init_image_transformation.init_image_transformation", "--output-path", "transform",
                 "--resize", "True", "--size", 40, "--center-crop", "True", "--crop-size", 32)
    original.run(f"-m {TRANSFORM}apply_image_transformation.apply_image_transformation", "--mode", "For inference",
                 "--input-image-transform-path", "transform", "--input-image-dir-path", images, "--output-path", "resized")
    original.score("resized")
    compare("resnet18, resized", original, kiln.score(images), RESIZED)


def check_evaluate(kiln, original):
    original.need(EVALUATE)
    for classes in (3, 2):
        images = kiln.draw(32, classes)
        kiln.train("resnet18", images)
        kiln.score(images)
        original.run("-m azureml.studio.modulehost.module_invoker", f"--module-name={EVALUATE}", "--scored-dataset", "ours",
                     "--evaluation-results", f"theirs-{classes}")
        columns, theirs = original.table(f"theirs-{classes}")
        kiln.run("evaluate", "--trained-model-path", "model", "--data-path", images, "--output-path", "evaluation")
        with open(kiln.folder / "evaluation/evaluation.csv", newline="", encoding="utf-8") as file:
            ours = next(csv.DictReader(file))
        assert list(ours)[-len(columns):] == columns, (list(ours), columns)
        for name in columns:
            assert abs(float(ours[name]) - theirs[0][name]) < 1e-6, f"{name}: {ours[name]}, but {theirs[0][name]}"
        print(f"{classes} classes: {', '.join(f'{name} {ours[name]}' for name in columns)}")


def rows_of(folder):
    return [json.loads(line) for line in (folder / "images.lst").read_text().splitlines()]


def draw_uneven(kiln, counts):
    """An ImageDirectory with so many images of each class."""
    target = f"uneven-{'-'.join(map(str, counts))}"
    drawn = kiln.folder / (target + "-source")
    kiln.run("demo-data", "--output-path", drawn, "--images", 2 * max(counts) * len(counts), "--classes", len(counts), "--size", 16)
    for folder, count in zip(sorted((drawn / "train").iterdir()), counts, strict=True):
        for path in sorted(folder.iterdir())[count:]:
            path.unlink()
    kiln.run("convert", "--input-path", drawn / "train", "--output-path", target)
    return target


def same_split(kiln, source, ours, theirs):
    """Both folders of ours have what theirs have but for which images they are."""
    for mine, other in zip(ours, theirs, strict=True):
        for name in ("_meta.yaml", "_schema.json"):
            assert (mine / name).read_bytes() == (other / name).read_bytes(), name
        assert len(rows_of(mine)) == len(rows_of(other)), (mine, other)
        for row in rows_of(mine):
            name = row["image_info"]["file_name"]
            assert (mine / name).read_bytes() == (kiln.folder / source / name).read_bytes(), name
    listed = [sorted(line for side in sides for line in (side / "images.lst").read_text().splitlines()) for sides in (ours, theirs)]
    assert listed[0] == listed[1], "lines of the lists differ"


def check_split(kiln, original):
    original.need(SPLIT)
    cases = [((7, 7, 6), 0.7), ((10, 10, 10), 0.35), ((9, 8, 8, 2), 0.9), ((9, 1, 5), 0.5), ((29, 30, 41), 0.29)]
    for number, (counts, fraction) in enumerate(cases):
        source = draw_uneven(kiln, counts)
        sides = {}
        for who in ("ours", "theirs"):
            sides[who] = [kiln.folder / f"{who}-{number}-{side}" for side in ("train", "test")]
            words = ("--src-path", source, "--tgt-train-path", sides[who][0], "--tgt-test-path", sides[who][1], "--fraction", fraction)
            if who == "ours":
                kiln.run("split", *words)
            else:
                original.run("-m " + SPLIT, *words)
        same_split(kiln, source, sides["ours"], sides["theirs"])
        classes = [[collections.Counter(row["category"] for row in rows_of(side)) for side in sides[who]] for who in ("ours", "theirs")]
        is_by_class = min(counts) > 1 and min(len(rows_of(side)) for side in sides["ours"]) >= len(counts)
        assert not is_by_class or classes[0] == classes[1], (counts, fraction, classes)
        print(f"{counts} images at {fraction}: {[dict(side) for side in classes[0]]}")


def main(program, what):
    with tempfile.TemporaryDirectory() as scratch:
        original = Original(Path(scratch))
        {"score": check_score, "evaluate": check_evaluate, "split": check_split}[what](Kiln(program, Path(scratch)), original)


main(*sys.argv[1:])
