"""Several labels an image (--task multi-label): drawn shapes, several in a picture, are trained on, scored, evaluated, exported and
served."""
import csv
import json
import os
import pathlib
import random
import shutil
import sys
import unittest

from browser import PROGRAM, Browser
from flow import FlowTest, kiln, main
from resumed_runs import Job, differences
from serving import Server

DEPS = pathlib.Path(__file__).parents[2] / ".deps"
PACKAGES = [os.environ.get(f"KILN_{name.upper()}_PACKAGES") or str(DEPS / name) for name in ("onnx", "parity")]
MISSING = [folder for folder in PACKAGES if not os.path.isdir(folder)]
if not MISSING:
    sys.path += PACKAGES
    import numpy
    import onnxruntime
    from PIL import Image

SIDE = 32
COLORS = {"bar": (40, 60, 230), "disk": (30, 200, 60), "square": (230, 40, 40)}


def inside(shape, x, y):
    if shape == "bar":
        return abs(x) <= 5 and abs(y) <= 2
    return x * x + y * y <= 25 if shape == "disk" else max(abs(x), abs(y)) <= 4


def picture(draw, shapes):
    """A PPM of these shapes on noise."""
    pixels = [[[draw.randrange(90, 130)] * 3 for _ in range(SIDE)] for _ in range(SIDE)]
    for shape in shapes:
        at_x, at_y = (draw.randrange(6, SIDE - 6) for _ in range(2))
        for y in range(SIDE):
            for x in range(SIDE):
                if inside(shape, x - at_x, y - at_y):
                    pixels[y][x] = COLORS[shape]
    return b"P6 %d %d 255\n" % (SIDE, SIDE) + bytes(value for row in pixels for pixel in row for value in pixel)


class MultiLabelTest(FlowTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)
        self.lists = {}
        for part, count in (("train", 96), ("val", 36)):
            (self.folder / "shapes" / part).mkdir(parents=True)
            self.lists[part] = self.folder / "shapes" / f"{part}.csv"
            rows = []
            for i in range(count):
                shapes = [shape for k, shape in enumerate(COLORS) if (i >> k) & 1]
                (self.folder / "shapes" / part / f"{i}.ppm").write_bytes(picture(draw, shapes))
                rows.append({"path": f"{part}/{i}.ppm", "label": ";".join(shapes)})
            with open(self.lists[part], "w", newline="") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)

    def fit(self, **options):
        result = self.train(**{"task": "multi-label", "train_data_path": self.lists["train"], "valid_data_path": self.lists["val"],
                               "learning_rate": 0.02, "epochs": 6, "batch_size": 12, **options})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def rows(self, path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    @unittest.skipIf(MISSING, f"environment/install.sh makes {' and '.join(MISSING)}")
    def test_an_exported_model_answers_as_score_does(self):
        self.fit()
        model = ["--trained-model-path", self.folder / "model"]
        exported = kiln("export", *model, "--output-path", self.folder / "model.onnx")
        self.assertEqual(exported.returncode, 0, exported.stderr)
        scored = kiln("score", *model, "--data-path", self.lists["val"], "--output-path", self.folder / "scores.csv", "--all-classes")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        session = onnxruntime.InferenceSession(str(self.folder / "model.onnx"), providers=["CPUExecutionProvider"])
        facts = session.get_modelmeta().custom_metadata_map
        labels = json.loads(facts["labels"])
        thresholds = [one[1] for one in json.loads(facts["calibration"])["classes"]]
        clear = 0
        for row, image in zip(self.rows(self.folder / "scores.csv"), self.rows(self.lists["val"])):
            pixels = numpy.asarray(Image.open(self.folder / "shapes" / image["path"]).convert("RGB"))
            shares = session.run(["probabilities"], {"image": pixels[None]})[0][0]
            for label, share in zip(labels, shares):
                self.assertAlmostEqual(share, float(row[f"probability_{label}"]), delta=1e-4)
            if min(abs(shares - thresholds)) > 1e-3:
                clear += 1
                self.assertEqual(";".join(labels[k] for k in range(3) if shares[k] >= thresholds[k]), row["label"])
        self.assertGreater(clear, 18)

    def test_trains_scores_evaluates_and_serves(self):
        self.assert_names(self.train(train_data_path=self.lists["train"], valid_data_path=self.lists["val"]).stderr,
                          "line 5", "bar;disk", "--task multi-label")
        self.fit(class_weights="sqrt", label_smoothing=0.02, mixup=0.1, cutmix=0.1)
        epoch = self.training()["epochs"][self.training()["saved_epoch"] - 1]
        self.assertGreater(epoch["mean_average_precision"], 0.8)
        self.assertEqual(epoch["mean_average_precision"], max(one["mean_average_precision"] for one in self.training()["epochs"]))
        model = ["--trained-model-path", self.folder / "model"]
        self.assert_names((self.folder / "model/model_spec.yaml").read_text(), "pytorch-multi-label", "MultiLabelClassification")
        self.assert_names((self.folder / "logs/report.html").read_text(), "mean-average-precision", "Surest labels that were missed")

        scored = kiln("score", *model, "--data-path", self.lists["val"], "--output-path", self.folder / "scores.csv", "--sort-into",
                      self.folder / "sorted")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        rows, truth = self.rows(self.folder / "scores.csv"), self.rows(self.lists["val"])
        self.assertEqual([row["true_label"] for row in rows], [row["label"] for row in truth])
        hits = sum(len({*row["label"].split(";")} & {*row["true_label"].split(";")} - {""}) for row in rows)
        self.assertGreater(hits, 36)
        likeliest = [max(row["label"].split(";"), key=lambda name: float(row.get("probability_" + name) or 0)) for row in rows]
        self.assertEqual(len(list(self.folder.glob("sorted/*/*"))), len(rows))
        for row, label in zip(rows, likeliest, strict=True):
            self.assertTrue((self.folder / "sorted" / (label or "unsure") / pathlib.Path(row["path"]).name).is_file(), row)
        plain = kiln("score", *model, "--data-path", self.lists["val"], "--output-path", self.folder / "plain.csv", "--raw",
                     "--all-classes")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        self.plain_shares_of_the_same_labels(model, self.rows(self.folder / "plain.csv"), rows)
        least = kiln("score", *model, "--data-path", self.lists["val"], "--output-path", self.folder / "all.csv", "--min-confidence", 1e-9)
        self.assertEqual(least.returncode, 0, least.stderr)
        self.assertEqual({row["label"] for row in self.rows(self.folder / "all.csv")}, {"bar;disk;square"})

        evaluated = kiln("evaluate", *model, "--data-path", self.lists["val"], "--output-path", self.folder / "evaluation")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        found = json.loads((self.folder / "evaluation/evaluation.json").read_text())["models"][0]
        self.assertAlmostEqual(found["mean_average_precision"], epoch["mean_average_precision"], delta=0.02)
        exact = sum(row["label"] == row["true_label"] for row in rows) / len(rows)
        self.assertAlmostEqual(found["exact_match"], exact)
        self.classes_are_counted_from_another_threshold_on(rows)
        self.evaluation_tells_of_strange_images(model)

        server = Server(self, *model)
        for number in (0, 7, 20):
            photo = self.folder / f"shapes/val/{number}.ppm"
            status, answer = server.json("POST", "/predict", photo.read_bytes())
            self.assertEqual((status, answer["label"]), (200, rows[number]["label"]))

        lists = ["--data-path", self.lists["val"]]
        sure = kiln("score", *model, *lists, "--output-path", self.folder / "sure.csv", "--answer-at", "60%")
        self.assertEqual(sure.returncode, 0, sure.stderr)
        for shape in COLORS:
            found = [shape in row["true_label"].split(";") for row in self.rows(self.folder / "sure.csv") if shape in row["label"].split(";")]
            self.assertGreaterEqual(sum(found), 0.6 * len(found))
        self.assert_refused(kiln("score", *model, *lists, "--answer-at", "99.9%"), 1, "--answer-at 99.9%")
        for words in (["--top-k", 2], ["--scored-dataset", self.folder / "scored"]):
            self.assert_refused(kiln("score", *model, *lists, *words), 1, words[0])
        for words in (["--top-k", 2], ["--explain", self.folder / "maps"]):
            self.assert_refused(kiln("evaluate", *model, *lists, "--output-path", self.folder / "none", *words), 1, words[0])
        self.assert_refused(kiln("export", *model, "--format", "mlflow", "--output-path", self.folder / "mlflow"), 1, "--format mlflow")
        self.assert_refused(kiln("evaluate", *model, "--trained-model-path", self.trained_model, *lists, "--output-path",
                                 self.folder / "both"), 1, "comparison")
        self.audit_finds_planted_labels(model)
        (self.folder / "model/calibration.json").unlink()
        self.assert_refused(kiln("score", *model, *lists), 1, "calibration.json")

    def classes_are_counted_from_another_threshold_on(self, rows):
        if PROGRAM is None:
            return
        with Browser() as browser:
            browser.open(self.folder / "evaluation/evaluation.html")
            read = ("[...document.querySelectorAll('#classes tbody tr')].map(r => Object.fromEntries([...r.cells].map((c, i) =>"
                    " [document.querySelector('#classes thead tr').cells[i].textContent, c.textContent])))")
            move = "(s => {{ s.value = {}; s.dispatchEvent(new Event('input')); }})(document.querySelector('#classes input[type=range]'))"
            before = browser.evaluate(read)
            browser.evaluate(move.format(50))
            for row in browser.evaluate(read):
                name = row["class"]
                sure = [one for one in rows if float(one["probability_" + name]) >= .5]
                hits = sum(name in one["true_label"].split(";") for one in sure)
                images = sum(name in one["true_label"].split(";") for one in rows)
                self.assertEqual((row["threshold"], row["images"], row["predicted"]), ("0.500", str(images), str(len(sure))))
                self.assertEqual(row["recall"], f"{100 * hits / images:.1f}\u00a0%")
                self.assertEqual(row["precision"], f"{100 * hits / len(sure):.1f}\u00a0%" if sure else "–")
            browser.evaluate(move.format(0))
            self.assertEqual(browser.evaluate(read), before)
            self.assertEqual(browser.complaints(), [])

    def plain_shares_of_the_same_labels(self, model, plain, rows):
        """Where the temperatures are far from 1, too."""
        self.assertEqual([row["label"] for row in plain], [row["label"] for row in rows])
        cold = self.folder / "cold"
        shutil.copytree(self.folder / "model", cold)
        facts = json.loads((cold / "calibration.json").read_text())
        for label in facts["classes"]:
            label[0], label[1] = 9.0, 0.6
        (cold / "calibration.json").write_text(json.dumps(facts))
        answers = []
        for words in (["--raw"], []):
            path = self.folder / f"cold{len(words)}.csv"
            result = kiln("score", "--trained-model-path", cold, *model[2:], "--data-path", self.lists["val"], "--output-path", path,
                          "--all-classes", *words)
            self.assertEqual(result.returncode, 0, result.stderr)
            answers.append(self.rows(path))
        raw, calibrated = answers
        self.assertEqual([row["label"] for row in raw], [row["label"] for row in calibrated])
        shares = [f"probability_{name}" for name in COLORS]
        self.assertEqual([[row[name] for name in shares] for row in raw], [[row[name] for name in shares] for row in plain])
        for row in raw:
            if row["label"]:
                self.assertEqual(row["confidence"], max((row[f"probability_{name}"] for name in row["label"].split(";")), key=float))

    def evaluation_tells_of_strange_images(self, model):
        """Seen, unknown and bad images are in the file, on the page and on the console, as for one label; and the tables are there."""
        folder, rows = self.folder / "strange", self.rows(self.lists["train"])
        rows[5]["label"] = "bar;zebra"
        (self.folder / "shapes/train/bad.ppm").write_bytes(b"nothing")
        rows.append({"path": "train/bad.ppm", "label": "bar"})
        with open(self.folder / "shapes/strange.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        evaluated = kiln("evaluate", *model, "--data-path", self.folder / "shapes/strange.csv", "--output-path", folder,
                         "--max-bad-images", 1)
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        found = json.loads((folder / "evaluation.json").read_text())["models"][0]
        self.assertEqual((found["images"], found["bad_images"], found["images_of_unknown_classes"], found["unknown_classes"]),
                         (len(rows) - 2, 1, 1, ["zebra"]))
        self.assertGreaterEqual(found["seen"]["training"], len(rows) - 1)
        for text in (evaluated.stdout + evaluated.stderr, (folder / "evaluation.html").read_text()):
            self.assert_names(text, f"{found['seen']['training']} images are identical", "zebra", "1 image left out, which could not be decoded")
        row, = self.rows(folder / "evaluation.csv")
        self.assertAlmostEqual(float(row["mean_average_precision"]), found["mean_average_precision"], places=5)
        self.assertEqual((row["images"], row["seen_in_training"]), (str(found["images"]), str(found["seen"]["training"])))
        self.assertEqual([(row["label"], int(row["images"])) for row in self.rows(folder / "classes.csv")],
                         [(one["label"], one["images"]) for one in found["classes"]])
        self.assertEqual(len(list((folder / "tensorboard").iterdir())), 1)

    def audit_finds_planted_labels(self, model):
        self.assert_refused(kiln("audit", self.lists["val"], *model, "--output-path", self.folder / "audit"), 1, "--task multi-label")
        rows, planted = self.rows(self.lists["train"]), {}
        for number, row in enumerate(rows):
            if number % 24 in (1, 4):  # of a bar alone, and of a square
                planted[row["path"]] = row["label"]
                row["label"] = {1: "disk", 4: "bar"}[number % 24]
        with open(self.folder / "shapes/planted.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        audited = kiln("audit", self.folder / "shapes/planted.csv", *model, "--task", "multi-label", "--output-path", self.folder / "audit")
        self.assertEqual(audited.returncode, 0, audited.stderr)
        doubted = [row for row in self.rows(self.folder / "audit/doubtful.csv") if row["reason"] == "label"]
        found = [row for row in doubted if row["path"] in planted]
        self.assertGreaterEqual(len(found), max(3, len(doubted) / 2), audited.stdout)
        self.assertTrue(any(row["suggested"] == planted[row["path"]] for row in found), found)
        record = json.loads((self.folder / "audit/audit.json").read_text())
        self.assertGreater({one["label"]: one["probably_missing"] for one in record["classes"]}["square"], 0)

    def test_one_dataset_is_divided_and_judged_by_what_was_asked(self):
        self.fit(train_data_path=None, valid_data_path=None, data_path=self.lists["train"], epochs=2, best_by="macro-f1", freeze="backbone",
                 augment="flip")
        rows = self.rows(self.folder / "logs/split.csv")
        valid = [row["label"] for row in rows if row["set"] == "valid"]
        self.assertGreater(len(valid), 8)
        self.assertLess(len(valid), 30)
        for shape in COLORS:
            self.assertGreater(sum(shape in label.split(";") for label in valid), 2)
        self.fit(epochs=1, precision="bf16")
        features = {"epochs": None, "freeze": "backbone", "augment": "none"}
        self.fit(**features)
        self.assert_names((self.folder / "logs/70_driver_log_0.txt").read_text(), "fitted in")
        for words, name in (({"class_weights": "sqrt", **features}, "--class-weights"), ({"sample": "balanced"}, "--sample"),
                            ({"folds": 3}, "--folds"), ({"best_by": "top1"}, "--best-by")):
            self.assert_names(self.train(task="multi-label", **words).stderr, name)
        self.assert_names(self.train(best_by="map").stderr, "--task multi-label")

    def test_goes_on_to_the_bit_and_two_ranks_agree_with_one(self):
        options = {"train_data_path": "data/train.csv", "valid_data_path": "data/val.csv", "task": "multi-label", "batch_size": 24}
        jobs = {name: Job(self.folder / name, self.untrained, self.folder / "shapes", **options) for name in ("straight", "resumed")}
        code, output = jobs["straight"].run()
        self.assertEqual(code, 0, output)
        jobs["resumed"].stop_after(3)
        code, output = jobs["resumed"].run()
        self.assertEqual(code, 0, output)
        self.assertEqual(len(jobs["resumed"].events("resume")), 1)
        self.assertEqual(differences(jobs["straight"], jobs["resumed"]), [])
        one = Job(self.folder / "one", self.untrained, self.folder / "shapes", **{**options, "epochs": 1, "sync_batch_norm": True})
        two = Job(self.folder / "two", self.untrained, self.folder / "shapes", ranks=2,
                  **{**options, "epochs": 1, "batch_size": 12, "lr_scaling": "none", "sync_batch_norm": True})
        epochs = []
        for job in (one, two):
            code, output = job.run()
            self.assertEqual(code, 0, output)
            epochs.append(json.loads((job.folder / "model/training.json").read_text())["epochs"][0])
        for key in ("valid_loss", "mean_average_precision", "micro_f1", "macro_f1", "exact_match"):
            self.assertAlmostEqual(epochs[0][key], epochs[1][key], delta=1e-3)


if __name__ == "__main__":
    main()
