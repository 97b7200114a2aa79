"""`kiln evaluate`: the figures of trained models on labeled images, checked against the answers that it writes beside them."""
import csv
import json
import math
import pathlib
import shutil
import statistics
import tempfile

from browser import BrowserCase
from flow import FlowTest, explanations, files_below, kiln, main, tensorboard_of

ONE_MODEL = {"answers.csv", "classes.csv", "evaluation.csv", "evaluation.html", "evaluation.json"}


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def exact_p_value(one, other):
    """McNemar's test: how likely a fair coin parts them at least so unevenly."""
    few, total = min(one, other), one + other
    return min(1, 2 * sum(math.comb(total, i) for i in range(few + 1)) / 2 ** total)


class Trained:
    """Two trained models."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.trained = pathlib.Path(tempfile.mkdtemp(prefix="kiln-evaluate-"))
        cls.addClassCleanup(shutil.rmtree, cls.trained, ignore_errors=True)
        (cls.trained / "good").symlink_to(cls.trained_model)
        made = kiln("train", "--untrained-model-path", cls.untrained, "--train-data-path", cls.data / "train",
                    "--valid-data-path", cls.data / "val", "--trained-model-path", cls.trained / "other", "--log-path",
                    cls.trained / "logs", "--batch-size", 8, "--device", "cpu", "--epochs", 1, "--random-seed", 5,
                    "--no-hashes", "--image-size", 64)
        assert made.returncode == 0, made.stderr

    def evaluate(self, *options, models=("good",), data=None, output="evaluation"):
        words = [word for model in models for word in ("--trained-model-path", self.trained / model)]
        return kiln("evaluate", *words, "--data-path", data or self.data / "val", "--output-path", self.folder / output,
                    "--device", "cpu", *options)

    def evaluated(self, *options, **places):
        result = self.evaluate(*options, **places)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        folder = self.folder / places.get("output", "evaluation")
        return folder, json.loads((folder / "evaluation.json").read_text())

    def names(self, folder):
        return {name for name in files_below(folder) if not name.startswith("tensorboard/")}


class EvaluateTest(Trained, FlowTest):
    def test_figures_are_those_of_the_answers(self):
        folder, record = self.evaluated("--top-k", 2)
        self.assertEqual(self.names(folder), ONE_MODEL)
        model, = record["models"]
        rows = rows_of(folder / "answers.csv")
        right = [row["label"] == row["true_label"] for row in rows]
        self.assertEqual(model["images"], len(rows))
        self.assertAlmostEqual(model["top1"], statistics.mean(right))
        self.assertLess(model["top1_interval"][0], model["top1"] + 1e-9)
        self.assertGreaterEqual(model["top_k"], model["top1"])
        classes = sorted({row["true_label"] for row in rows})
        self.assertEqual([entry["label"] for entry in model["classes"]], classes)
        recalls, f1s = [], []
        for entry in model["classes"]:
            of_class = [row for row in rows if row["true_label"] == entry["label"]]
            guesses = [row for row in rows if row["label"] == entry["label"]]
            hits = sum(row["label"] == entry["label"] for row in of_class)
            self.assertEqual((entry["images"], entry["predicted"], entry["right"]), (len(of_class), len(guesses), hits))
            recalls.append(hits / len(of_class))
            f1s.append(2 * hits / (len(of_class) + len(guesses)))
        self.assertAlmostEqual(model["macro_recall"], statistics.mean(recalls))
        self.assertAlmostEqual(model["macro_f1"], statistics.mean(f1s))
        cells = {(classes[truth], classes[guess]): count for truth, guess, count in model["confusion"]["cells"]}
        for (truth, guess), count in cells.items():
            self.assertEqual(count, sum(row["true_label"] == truth and row["label"] == guess for row in rows))
        error = 0
        for b in range(15):
            inside = [i for i, row in enumerate(rows) if b / 15 < float(row["confidence"]) <= (b + 1) / 15]
            if inside:
                error += abs(sum(right[i] - float(rows[i]["confidence"]) for i in inside)) / len(rows)
        self.assertAlmostEqual(model["expected_calibration_error"], error, places=5)

    def test_it_sees_what_validation_saw(self):
        training = json.loads((self.trained / "good/training.json").read_text())
        saved = next(epoch for epoch in training["epochs"] if epoch["epoch"] == training["saved_epoch"])
        folder, record = self.evaluated()
        self.assertAlmostEqual(record["models"][0]["top1"], saved["top1"])
        scored = kiln("score", "--trained-model-path", self.trained / "good", "--data-path", self.data / "val",
                      "--output-path", self.folder / "scores.csv", "--device", "cpu")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assertEqual(rows_of(folder / "answers.csv"), rows_of(self.folder / "scores.csv"))

    def test_the_designers_columns(self):
        folder, record = self.evaluated()
        row, = rows_of(folder / "evaluation.csv")
        model = record["models"][0]
        for name in ("Overall_Accuracy", "Micro_Precision", "Micro_Recall"):
            self.assertAlmostEqual(float(row[name]), model["top1"], places=5)
        recalls = [entry["recall"] or 0 for entry in model["classes"]]
        self.assertAlmostEqual(float(row["Macro_Recall"]), statistics.mean(recalls), places=5)
        precisions = [entry["precision"] or 0 for entry in model["classes"]]
        self.assertAlmostEqual(float(row["Macro_Precision"]), statistics.mean(precisions), places=5)

    def test_models_side_by_side(self):
        folder, record = self.evaluated(models=("good", "other"))
        self.assertEqual(self.names(folder), ONE_MODEL - {"answers.csv"} | {
            "answers-1.csv", "answers-2.csv", "differences.csv", "evaluation-1.html", "evaluation-2.html"})
        one, other = (rows_of(folder / f"answers-{number}.csv") for number in (1, 2))
        right = [[row["label"] == row["true_label"] for row in rows] for rows in (one, other)]
        pair, = record["pairs"]
        only_first = [row["path"] for row, a, b in zip(one, *right) if a and not b]
        only_second = [row["path"] for row, a, b in zip(one, *right) if b and not a]
        self.assertEqual((pair["only_first_right"], pair["only_second_right"]), (len(only_first), len(only_second)))
        self.assertTrue(pair["mcnemar"]["exact"])
        self.assertAlmostEqual(pair["mcnemar"]["p_value"], exact_p_value(len(only_first), len(only_second)))
        self.assertEqual({row["path"] for row in rows_of(folder / "differences.csv")}, {*only_first, *only_second})
        self.assertEqual(len(list((folder / "tensorboard").glob("model-[12]/*.kiln"))), 2)
        # In the same folder, one model leaves nothing of two.
        folder, _ = self.evaluated()
        self.assertEqual(self.names(folder), ONE_MODEL)
        self.assertEqual(len([path for path in (folder / "tensorboard").rglob("*") if path.is_file()]), 1)

    def test_tensorboard_reads_its_events(self):
        folder, record = self.evaluated()
        reader = tensorboard_of(self, folder / "tensorboard")
        model = record["models"][0]
        for name, value in (("top-1", model["top1"]), ("macro F1", model["macro_f1"]), ("images", model["images"])):
            self.assertAlmostEqual(reader.Scalars("evaluation/" + name)[0].value, value, places=5)
        self.assertTrue(reader.Images("Confusion matrix")[0].encoded_image_string.startswith(b"\x89PNG"))

    def test_mistakes_are_explained(self):
        maps = self.folder / "maps"
        folder, record = self.evaluated("--explain", maps, models=("good", "other"))
        num_wrong = 0
        for number, model in enumerate(record["models"], 1):
            size = (64, 64) if number == 2 else None
            rows = explanations(self, maps / f"model-{number}", size)
            self.assertEqual([(row["path"], row["label"]) for row in rows],
                             [(image["path"], image["label"]) for image in model["most_wrong"]])
            answers = {row["path"]: row for row in rows_of(folder / f"answers-{number}.csv")}
            for row in rows:
                answer = answers[row["path"]]
                self.assertNotEqual(answer["label"], answer["true_label"])
                self.assertEqual((row["label"], row["confidence"]), (answer["label"], answer["confidence"]))
            page = (folder / f"evaluation-{number}.html").read_text()
            self.assertEqual(page.count('alt="heat map"'), len(rows) if size else 0)
            num_wrong += len(rows)
        self.assertGreater(num_wrong, 0)
        self.assertEqual(len(list(maps.iterdir())), 2)
        # In the same folder, one model leaves nothing of two.
        _, record = self.evaluated("--explain", maps)
        self.assertEqual([row["path"] for row in explanations(self, maps)],
                         [image["path"] for image in record["models"][0]["most_wrong"]])

    def test_files_of_others_stay(self):
        folder, _ = self.evaluated(models=("good", "other"))
        theirs = ("answers-of-june.csv", "june/answers.csv", "evaluation-.html", "answers.csv.bak")
        for name in theirs:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("x")
        self.evaluated()
        self.assertEqual(self.names(folder), {*ONE_MODEL, *theirs})

    def test_images_that_the_model_has_seen_are_counted(self):
        _, held_out = self.evaluated()
        valid = held_out["images"]
        self.assertEqual(held_out["models"][0]["seen"], {"training": 0, "validation": valid})
        folder, record = self.evaluated(data=self.data / "train")
        self.assertEqual(record["models"][0]["seen"], {"training": record["images"], "validation": 0})
        _, unknown = self.evaluated(models=("other",))
        self.assertIsNone(unknown["models"][0]["seen"])

    def test_labels_that_the_model_does_not_know_are_left_out(self):
        data = self.copy_data("val")
        first, *_ = sorted(path for path in data.iterdir())
        shutil.copytree(first, data / "zebra")
        _, record = self.evaluated(data=data)
        model = record["models"][0]
        number = len(list((data / "zebra").iterdir()))
        self.assertEqual((model["images_of_unknown_classes"], model["unknown_classes"]), (number, ["zebra"]))
        self.assertEqual(model["images"], record["images"] - number)
        scored = kiln("score", "--trained-model-path", self.trained / "good", "--data-path", data, "--output-path",
                      self.folder / "scores.csv", "--device", "cpu")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assert_names(scored.stderr + scored.stdout, "zebra", f"{100 * model['top1']:.2f} % of {model['images']} images")
        self.assertNotIn("as wrong", scored.stderr)

    def test_numbers_that_begin_elsewhere_are_refused(self):
        """Classes 1 to 3, labels 0 to 2: by their names most are those of the class beside."""
        def listed(part, first):
            path = self.folder / f"{part}{first}.csv"
            rows = [f"{image},{number}" for number, folder in enumerate(sorted((self.data / part).iterdir()), first)
                    for image in sorted(folder.iterdir())]
            path.write_text("\n".join(["path,label", *rows, ""]))
            return path
        trained = self.train(train_data_path=listed("train", 1), valid_data_path=listed("val", 1))
        self.assertEqual(trained.returncode, 0, trained.stderr)
        self.evaluated(models=(self.folder / "model",), data=listed("val", 1))
        self.assert_refused(self.evaluate(models=(self.folder / "model",), data=listed("val", 0)), 1, "0 to 2", "--first-label 0")
        scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", listed("val", 0), "--output-path",
                      self.folder / "scores.csv", "--device", "cpu")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assert_names(scored.stdout + scored.stderr, "0 to 2", "--first-label 0")

    def test_images_without_a_label_are_told(self):
        data = self.copy_data("val")
        image = sorted(data.glob("*/*"))[0]
        image.rename(data / image.name)
        result = self.evaluate(data=data)
        self.assert_names(result.stdout + result.stderr, "1 image without a label")
        record = json.loads((self.folder / "evaluation/evaluation.json").read_text())
        self.assertEqual((record["images_without_label"], record["models"][0]["images"]), (1, record["images"] - 1))
        self.assert_names((self.folder / "evaluation/evaluation.html").read_text(), "1 image without a label")

    def test_a_name_of_several_of_the_models_classes_is_refused(self):
        """As Kiln once trained on COCO with a category `Others` and unused ids."""
        shutil.copytree(self.trained_model, self.folder / "twice")
        table = self.folder / "twice/index_to_label.csv"
        first, second = sorted(path.name for path in (self.data / "val").iterdir())[:2]
        table.write_text(table.read_text().replace(f",{second}\n", f",{first}\n"))
        result = self.evaluate(models=(self.folder / "twice",))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assert_names(result.stderr, f"'{first}'", "index_to_label.csv")

    def test_a_bad_image_is_told(self):
        data = self.copy_data("val")
        broken = sorted(data.rglob("*.png"))[0]
        broken.write_bytes(b"no image")
        folder, record = self.evaluated("--max-bad-images", 1, data=data)
        model = record["models"][0]
        self.assertEqual((model["bad_images"], model["images"]), (1, record["images"] - 1))
        self.assertEqual([fault["path"] for fault in model["faults"]], [str(broken.relative_to(data))])
        row = next(row for row in rows_of(folder / "answers.csv") if row["path"] == str(broken.relative_to(data)))
        self.assertTrue(row["fault"])
        refused = self.evaluate("--max-bad-images", 0, data=data, output="none")
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertEqual(list((self.folder / "none").rglob("*")), [])

    def test_refusals(self):
        flat = self.folder / "flat"
        flat.mkdir()
        for number, path in enumerate(sorted((self.data / "val").rglob("*.png"))[:3]):
            shutil.copy(path, flat / f"{number}.png")
        strange = self.folder / "strange"
        (strange / "sub").mkdir(parents=True)
        cases = ((dict(data=flat), 1, "labels"),
                 (dict(output="strange"), 3, "not empty"),
                 (dict(models=("missing",)), 1, "missing"),
                 (dict(models=("logs",)), 1, "logs"))
        for places, code, word in cases:
            with self.subTest(**places):
                result = self.evaluate(**places)
                self.assert_refused(result, code, word)
        self.assertEqual(self.names(strange), set())
        # The faults of all parts at once.
        both = self.evaluate("--explain", flat, models=("missing",), data=self.folder / "nowhere")
        self.assert_names(both.stderr, "missing", "nowhere", "--explain", ".png")
        self.assertEqual(len(self.names(flat)), 3)


class PagesTest(Trained, BrowserCase):
    def value(self, name):
        return self.browser.evaluate(f"Number(document.getElementById('{name}').value)")

    def test_pages(self):
        folder, record = self.evaluated(models=("good", "other"))
        self.look_at(folder / "evaluation.html")
        links = self.browser.evaluate("[...document.querySelectorAll('#models a')].map(a => a.getAttribute('href'))")
        self.assertEqual(links, ["evaluation-1.html", "evaluation-2.html"])
        self.assertIsNone(self.browser.evaluate("document.body.innerText.match(/[\"']/)"))
        shown = self.browser.evaluate("[...document.querySelectorAll('#differences figure')].map(figure => [figure.dataset.label,"
                                      " figure.dataset.answer, figure.textContent.split('✓').length])")
        self.assertGreater(len(shown), 0)
        for _, _, num_parts in shown:
            self.assertEqual(num_parts, 2, "one of the two is right")
        for link, model in zip(links, record["models"], strict=True):
            self.look_at(folder / link)
            self.assertIsNone(self.browser.evaluate("document.body.innerText.match(/[\"']/)"))
            for name, value in (("top1", model["top1"]), ("macro-f1", model["macro_f1"]),
                                ("calibration-error", model["expected_calibration_error"])):
                self.assertAlmostEqual(self.value(name), value, places=5)
            wrong = sum(truth != guess and count for truth, guess, count in model["confusion"]["cells"])
            self.assertEqual(self.browser.evaluate("document.querySelectorAll('#pictures .guess').length"), min(wrong, 24))
            # Counted from a confidence of 50 % on, as in the table of answers.
            self.browser.evaluate("(s => { s.value = 50; s.dispatchEvent(new Event('input')); })(document.querySelector('#classes input[type=range]'))")
            counts = self.browser.evaluate("Object.fromEntries([...document.querySelectorAll('#classes tbody tr')].map(r =>"
                                           " [r.cells[0].textContent, [4, 5, 6].map(i => Number(r.cells[i].textContent))]))")
            answers = rows_of(folder / f"answers-{links.index(link) + 1}.csv")
            for name, (right, missed, false) in counts.items():
                sure = [row for row in answers if row["label"] == name and float(row["confidence"]) >= .5]
                hits = sum(row["true_label"] == name for row in sure)
                images = sum(row["true_label"] == name for row in answers)
                self.assertEqual((right, missed, false), (hits, images - hits, len(sure) - hits), name)
            titles = self.browser.evaluate("[...document.querySelectorAll('figure.chart h3')].map(h => h.textContent)")
            # A temperature at the limit of its fit tells nothing about thresholds, which no chart shows then.
            self.assertEqual(len(titles), 2 if 0.051 < model["temperature"] < 19.9 else 1)


if __name__ == "__main__":
    main()
