"""--folds where the network itself is trained: each image is judged by one that has not learned from it."""
import csv
import json
import signal

from flow import FlowTest, main
from resumed_runs import Job, differences

FOLDS = 2


class FoldsTest(FlowTest):
    """48 photos of 3 classes, as one dataset."""

    def job(self, name, **options):
        return Job(self.folder / name, self.untrained, self.data, **{
            "train_data_path": None, "valid_data_path": None, "data_path": "data/train", "patience": None,
            "checkpoint_path": None, "checkpoint_every": None, "augment": "flip", **options})

    def ended(self, job):
        code, output = job.run()
        self.assertEqual(code, 0, output)
        return output

    def split(self, job):
        with open(job.folder / "logs/split.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def with_split(self, name, rows, fold):
        """The run in which those of a fold validate."""
        job = self.job(name, split="split.csv", save="last", stop_when="off")
        with open(job.folder / "split.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["path", "set"])
            writer.writerows([row["path"], "valid" if row["fold"] == fold else "train"] for row in rows)
        self.ended(job)
        return job


class TrainedFoldsTest(FoldsTest):
    def test_they_are_the_runs_with_these_splits(self):
        job = self.job("run", folds=FOLDS)
        output = self.ended(job)
        self.assertRegex(output, r"folds: +2; first, for each fold, a network")
        self.assertIn("fold 2 of 2, epoch 1 of 2: train loss", output)
        self.assertRegex(output, r"fold 2 of 2: top-1 \d+\.\d\d % on \d+ images that it had not seen")
        self.assertRegex(output, r"out of fold +\d+\.\d % \(95 % interval .* of 48 training images, in 2 folds")
        self.assertRegex(output, "fitted on the out-of-fold images|cannot be calibrated")
        rows = self.split(job)
        self.assertEqual({row["set"] for row in rows}, {"train"})
        self.assertEqual({row["fold"] for row in rows}, {"1", "2"})

        runs = [self.with_split(f"split{fold}", rows, str(fold)) for fold in (1, 2)]
        sums = [epoch["valid"] for epoch in job.events("epoch")]
        for number, total in enumerate(sums):
            parts = [run.events("epoch")[number]["valid"] for run in runs]
            self.assertEqual(total, {name: parts[0][name] + parts[1][name] for name in total})
        self.assertEqual(sums[-1]["images"], 48)

        training = json.loads((job.folder / "model/training.json").read_text())
        self.assertEqual(training["out_of_fold"]["folds"], FOLDS)
        self.assertEqual(training["out_of_fold"]["totals"], sums[-1])
        self.assertEqual((training["saved_epoch"], training["stopped_early"]), (2, False))
        page = (job.folder / "logs/report.html").read_text()
        self.assertIn("by a model that was trained only on the other images, in 2 folds", page)
        self.assertNotIn("The best epoch was selected", page)

        # And the run itself is the one on all images.
        plain = self.job("plain", data_path=None, train_data_path="data/train", valid_data_path="data/val", save="last",
                         stop_when="off")
        self.ended(plain)
        self.assertEqual(*[(one.folder / "model/model").read_bytes() for one in (job, plain)])

    def test_ranks_share_each_fold(self):
        one, two = self.job("one", folds=FOLDS, epochs=1), self.job("two", folds=FOLDS, epochs=1, batch_size=6, ranks=2)
        for job in (one, two):
            self.ended(job)
            (epoch,) = job.events("epoch")
            self.assertEqual((epoch["train"]["images"], epoch["valid"]["images"]), (48, 48))
        self.assertEqual(self.split(one), self.split(two))


class StoppedTest(FoldsTest):
    def test_folds_that_are_done_are_not_repeated(self):
        options = {"folds": FOLDS, "checkpoint_path": "checkpoints", "checkpoint_every": "3steps", "epochs": 3}
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        code, output = resumed.stop_after(0, signal.SIGTERM, checkpointed=True)
        self.assertEqual(code, 128 + signal.SIGTERM, output)
        self.assertIn("so no model is written", output)
        self.assertFalse((resumed.folder / "model/_meta.yaml").exists())
        output = self.ended(resumed)
        self.assertNotIn("fold 1 of 2, epoch 1", output)
        self.assertEqual(differences(straight, resumed), [])

    def test_without_checkpoints_nothing_is_left(self):
        job = self.job("run", folds=FOLDS, epochs=1000)
        process = job.start()
        for line in process.stdout:
            if line.startswith("fold 1 of 2, epoch 1 "):
                process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 128 + signal.SIGINT)
        process.stdout.close()
        self.assertFalse((job.folder / "model/_meta.yaml").exists())
        self.assertEqual(job.events("epoch"), [])


class RefusalTest(FoldsTest):
    def test_what_chooses_by_validation_images(self):
        for options, expected in (({"time_limit": "1min"}, "--folds and --time-limit are both given"),
                                  ({"steps": 5}, "--folds and --steps are both given"),
                                  ({"patience": 3}, "--folds and --patience are both given"),
                                  ({"save": "best"}, "--folds and --save are both given"),
                                  ({"data_path": None, "train_data_path": "data/train", "valid_data_path": "data/val"},
                                   "none are set aside for validation")):
            with self.subTest(**options):
                code, output = self.job("run", folds=FOLDS, **options).run()
                self.assertEqual(code, 2, output)
                self.assertIn(expected, output)

    def test_too_few_images(self):
        code, output = self.job("run", folds=FOLDS, batch_size=30).run()
        self.assertNotEqual(code, 0)
        self.assertIn("images, but the global batch has 30", output)


if __name__ == "__main__":
    main()
