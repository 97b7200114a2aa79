"""The designer's image sample from end to end: convert, split, init and apply a transformation, init-model, train, score and
evaluate; by kiln alone, and with each step in turn done by the component whose place it takes.

KILN_ORIGINAL names the Python of an environment with azureml-designer-pytorch-modules and -cv-modules, and for Evaluate Model
-classic-modules; without it the steps are not swapped.
"""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import unittest

from flow import FlowTest, kiln, main
from test_transform import pixels_of

DL = "azureml.designer.modules.dl.pytorch."
VISION = "azureml.designer.modules.computer_vision."
EVALUATE = "azureml.studio.modules.ml.evaluate.evaluate_generic_module.evaluate_generic_module"
CLOSE = 2  # of 255, in the mean


class Step:
    """A step by kiln, and by its original: option names and values; a value that begins with @ is a path in the sample's
    folder. `theirs` is what the original calls otherwise."""

    def __init__(self, command, module, outputs, options, ours=(), theirs=None):
        self.command, self.module, self.outputs = command, module, outputs
        self.options, self.ours, self.theirs = options, dict(ours), theirs

    @staticmethod
    def words(options, folder):
        return [word for name, value in options.items()
                for word in ("--" + name, str(folder / value[1:]) if str(value).startswith("@") else str(value))]

    def by_kiln(self, test, folder):
        done = kiln(*self.command.split(), *self.words({**self.options, **self.ours}, folder), cwd=folder)
        test.assertEqual(done.returncode, 0, f"{self.command}: {done.stdout}{done.stderr}")

    def by_original(self, test, folder, python):
        words = [python, *self.module.split(), *self.words(self.options if self.theirs is None else self.theirs, folder)]
        settings = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
                    "MPLBACKEND": "Agg"}
        log = folder / "original.log"
        with open(log, "w") as output:  # no pipe, which a process left behind would keep open
            done = subprocess.run(words, cwd=folder, stdout=output, stderr=subprocess.STDOUT, env=settings, timeout=300)
        test.assertEqual(done.returncode, 0, f"{self.command} by the original: {log.read_text()[-3000:]}")


def applied(mode, images, output):
    return Step("transform apply", f"-m {VISION}transform.apply_image_transformation.apply_image_transformation", [output],
                {"mode": mode, "input-image-transform-path": "@transformation", "input-image-dir-path": "@" + images,
                 "output-path": "@" + output})


STEPS = {
    "convert": Step("convert", f"-m {VISION}preprocess.convert_to_image_directory.convert_to_image_directory", ["images"],
                    {"input-path": "@photos", "output-path": "@images"}),
    "split": Step("split", f"-m {VISION}preprocess.split_image_directory.split_image_directory", ["train", "test"],
                  {"src-path": "@images", "tgt-train-path": "@train", "tgt-test-path": "@test", "fraction": "0.75"}),
    "init transformation": Step(
        "transform init", f"-m {VISION}transform.init_image_transformation.init_image_transformation", ["transformation"],
        {"output-path": "@transformation", "resize": "True", "size": "40", "center-crop": "True", "crop-size": "32",
         "random-horizontal-flip": "True"}),
    "apply for training": applied("For training", "train", "train-images"),
    "apply for inference": applied("For inference", "test", "test-images"),
    "init-model": Step("init-model", f"-m {DL}initialize_models.vision.classification.resnet", ["untrained"],
                       {"untrained-model-path": "@untrained", "model-name": "resnet18", "pretrained": "False"}),
    "train": Step("train", f"-m {DL}train.train_pytorch_model", ["model"],
                  {"untrained-model-path": "@untrained", "train-data-path": "@train-images", "valid-data-path": "@test-images",
                   "trained-model-path": "@model", "epochs": "1", "batch-size": "12", "learning-rate": "0.01"},
                  ours={"device": "cpu", "threads": "2", "log-path": "@logs"}),
    "score": Step("score", f"-m {DL}score.score_image_model.module_invoker", ["scored"],
                  {"trained-model-path": "@model", "data-path": "@test-images", "scored-dataset": "@scored"},
                  ours={"device": "cpu"},
                  theirs={"trained-model": "@model", "dataset": "@test-images", "scored-dataset": "@scored"}),
    "evaluate": Step("evaluate", f"-m azureml.studio.modulehost.module_invoker --module-name={EVALUATE}", ["evaluation"],
                     {"trained-model-path": "@model", "data-path": "@test-images", "output-path": "@evaluation"},
                     ours={"device": "cpu"}, theirs={"scored-dataset": "@scored", "evaluation-results": "@evaluation"}),
}


class SampleTest(FlowTest):
    def run_all(self, folder, swapped=None, python=None, earlier=None):
        """All steps in `folder`; `swapped` is done by the original, and those before it are taken from the folder `earlier`."""
        folder.mkdir()
        os.symlink(self.data / "train", folder / "photos")
        before = swapped is not None
        for name, step in STEPS.items():
            if name == swapped:
                before = False
                step.by_original(self, folder, python)
            elif before:
                for output in step.outputs:
                    shutil.copytree(earlier / output, folder / output)
            else:
                step.by_kiln(self, folder)
        return folder

    def assert_whole(self, folder, original_evaluation=False):
        count = {part: len((folder / part / "images.lst").read_text().splitlines()) for part in ("train", "test")}
        self.assertEqual(count, {"train": 36, "test": 12})
        for part in ("train", "test"):
            names = [json.loads(line)["image_info"]["file_name"]
                     for line in (folder / f"{part}-images/images.lst").read_text().splitlines()]
            self.assertEqual(len(names), count[part])
            for name in names:
                self.assertEqual(len(pixels_of((folder / f"{part}-images" / name).read_bytes())), 32)
        self.assertEqual(kiln("inspect", folder / "model").returncode, 0)
        self.assertTrue((folder / "scored/_data.parquet").exists())
        if not original_evaluation:
            with open(folder / "evaluation/answers.csv", newline="") as file:
                self.assertEqual(len(list(csv.DictReader(file))), 12)

    def test_by_kiln_alone_and_with_each_step_swapped(self):
        whole = self.run_all(self.folder / "kiln")
        self.assert_whole(whole)
        python = os.environ.get("KILN_ORIGINAL")
        for number, (name, step) in enumerate(STEPS.items()):
            with self.subTest(swapped=name):
                self.need_original(python, step)
                swapped = self.run_all(self.folder / str(number), name, python, whole)
                self.assert_whole(swapped, original_evaluation=name == "evaluate")
                if name == "apply for inference":
                    self.assert_near(whole / "test-images", swapped / "test-images")

    def need_original(self, python, step):
        if not python:
            raise unittest.SkipTest("KILN_ORIGINAL is not set")
        module = EVALUATE if EVALUATE in step.module else step.module.removeprefix("-m ").rpartition(".")[0]
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
        if found.returncode != 0:
            raise unittest.SkipTest(f"{python} cannot import {module}: {found.stderr.strip().splitlines()[-1]}")

    def assert_near(self, ours, theirs):
        for path in sorted((ours / "image").iterdir()):
            pairs = [(a, b) for one, other in zip(pixels_of(path.read_bytes()),
                                                  pixels_of((theirs / "image" / path.name).read_bytes()), strict=True)
                     for a, b in zip(one, other, strict=True)]
            self.assertLess(sum(abs(a - b) for a, b in pairs) / len(pairs), CLOSE, pathlib.Path(path.name))


if __name__ == "__main__":
    main()
