"""Bare words: a folder of photos is all that a first line needs, and the lines after it need no more."""
import csv
import shutil

from flow import FlowTest, files_below, kiln, main
from resumed_runs import Job


class FirstMinuteTest(FlowTest):
    def kiln(self, *words):
        done = kiln(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def options(self):
        return self.start_event()["options"]

    def test_train_score_evaluate_audit(self):
        shutil.copytree(self.data / "train", self.folder / "photos")
        output = self.kiln("train", "photos", "--epochs", 1, "--device", "cpu")
        self.assert_names(output, "--recipe modern", "--model-name", "kiln score photo.jpg\n")
        options = self.options()
        self.assertEqual([options[name] for name in ("data-path", "model-name", "trained-model-path", "lr-schedule", "epochs")],
                         ["photos", "resnet18", "model", "cosine", "1"])
        repeated = (self.folder / "logs/repeat.yaml").read_text()
        self.assertRegex(repeated, "(?m)^lr-schedule: cosine")
        photos = [path.relative_to(self.folder) for path in sorted(self.folder.glob("photos/*/*"))[:3]]
        self.kiln("score", *photos, "--output-path", "scores.csv")
        with open(self.folder / "scores.csv", newline="") as file:
            self.assertEqual([row["path"] for row in csv.DictReader(file)], [str(photo) for photo in photos])
        self.assert_names(self.kiln("score", photos[0]), photos[0].name)
        self.kiln("evaluate", "photos")
        self.kiln("audit", "photos", "--folds", 2)
        self.kiln("split", "photos")
        for file in ("evaluation/evaluation.json", "audit/audit.json", "split/train/images.lst", "split/test/images.lst"):
            self.assertTrue((self.folder / file).is_file(), file)

    def few(self, name, count):
        """A folder of so many photos in each of two classes."""
        for source in sorted((self.data / "train").iterdir())[:2]:
            target = self.folder / name / source.name
            target.mkdir(parents=True)
            for photo in sorted(source.iterdir())[:count]:
                shutil.copy(photo, target)
        return self.folder / name

    def test_two_folders_of_eight_photos(self):
        self.few("photos", 8)
        output = self.kiln("train", "photos", "--epochs", 1, "--device", "cpu")
        self.assertRegex(output, r"batch-size: +6 \(")
        self.assertEqual(self.options()["batch-size"], "6")
        self.assertRegex((self.folder / "logs/repeat.yaml").read_text(), "(?m)^batch-size: 6 ")

    def test_a_run_that_resumes_keeps_its_batch_size(self):
        """Found now, it would be 10."""
        data = self.folder / "data"
        self.few("data/train", 10)
        shutil.copytree(data / "train", data / "val")
        options = {"checkpoint_every": "1step", "epochs": 20}
        Job(self.folder / "run", self.untrained, data, batch_size=6, **options).stop_after(1, checkpointed=True)
        code, output = Job(self.folder / "run", self.untrained, data, batch_size="auto", **options).run()
        self.assertEqual(code, 0, output)
        self.assertRegex(output, r"batch-size: +6 \(as before\)")

    def test_a_folder_of_both_parts_and_weights(self):
        shutil.copytree(self.data, self.folder / "both")
        output = self.kiln("train", "both", "--weights", self.trained_model, "--time-limit", "2s", "--ranks", 2, "--device",
                           "cpu", "--trained-model-path", "model 2")
        self.assert_names(output, "--trained-model-path 'model 2'\n")
        options = self.options()
        self.assertEqual([options[name] for name in ("train-data-path", "valid-data-path", "auto", "recipe")],
                         ["both/train", "both/val", "True", "designer"])

    def test_what_is_not_there(self):
        for words, named in ((["train", "photso"], "'photso'"), (["score", "1.jpg", "*.jpg"], "'*.jpg'"),
                             (["predict", "1.jpg"], "`kiln score 1.jpg`"), (["fit", "photos"], "`kiln train photos`")):
            with self.subTest(words=words):
                done = kiln(*words, cwd=self.folder)
                self.assert_refused(done, 2, named)
                self.assertEqual(files_below(self.folder), {})
        done = kiln("score", self.data, self.data / "train", cwd=self.folder)
        self.assert_refused(done, 1, self.data)


if __name__ == "__main__":
    main()
