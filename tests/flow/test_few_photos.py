"""One folder of real photos and the weights of another training: a model in time, with sure numbers, that repeats."""
import json

from flow import SHARED, FlowTest, kiln, main

PHOTOS = SHARED / "data/photos/train"
LIMIT = 6  # seconds
SLACK = 60  # other tests share the machine


class FewPhotosTest(FlowTest):
    def setUp(self):
        if not PHOTOS.is_dir():
            self.skipTest(f"{PHOTOS} is not here")
        super().setUp()

    def in_folder(self, *words):
        done = kiln(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def weights(self):
        """Of a network that has learned other classes."""
        made = self.train(trained_model_path=self.folder / "other", log_path=self.folder / "other-logs", epochs=2)
        self.assertEqual(made.returncode, 0, made.stderr)
        return "other"

    def test_from_a_folder_to_a_model(self):
        self.in_folder("train", "--data-path", PHOTOS, "--model-name", "resnet18", "--weights", self.weights(),
                       "--trained-model-path", "model", "--image-size", 48, "--time-limit", f"{LIMIT}s", "--device", "cpu",
                       "--log-path", "logs")
        events = [json.loads(line) for line in (self.folder / "logs/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(events[-1]["status"], "finished")
        self.assertLess(events[-1]["total_seconds"], LIMIT + SLACK)
        record = json.loads((self.folder / "model/training.json").read_text())
        found = record["automatic"]
        epochs = {epoch["epoch"]: epoch for epoch in record["epochs"]}
        self.assertEqual(epochs[1]["top1"], found["frozen"]["top1"] / found["frozen"]["images"])
        self.assertEqual(record["saved_epoch"], found["tuned_epoch"] if found["keeps_tuned"] else 1)
        if found["tuned_epoch"] > 0:
            self.assertEqual(epochs[found["tuned_epoch"]]["top1"], found["tuned"]["top1"] / found["tuned"]["images"])
        self.assertEqual(json.loads(self.in_folder("inspect", "model", "--json"))["num_classes"], 3)
        page = (self.folder / "logs/report.html").read_text()
        self.assertIn('id="kept"', page)
        self.assertRegex(page, "95.% interval")

        repeat = (self.folder / "logs/repeat.yaml").read_text()
        self.assertNotRegex(repeat, "(?m)^time-limit")
        self.assertRegex(repeat, "(?m)^auto: (True|False) +#")
        self.in_folder("train", "--config", "logs/repeat.yaml", "--trained-model-path", "model2", "--log-path", "logs2")
        models = [(self.folder / name / "model").read_bytes() for name in ("model", "model2")]
        self.assertTrue(models[0] == models[1], repeat)
        self.assertEqual(*[(self.folder / logs / "split.csv").read_text() for logs in ("logs", "logs2")])


if __name__ == "__main__":
    main()
