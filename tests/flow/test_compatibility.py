"""What earlier versions made is read: the archives in kept/, as docs/compatibility.md promises."""
import csv
import json
import pathlib
import sys
import tarfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "kept"))

import make  # noqa: E402
from flow import FlowTest, kiln, main  # noqa: E402

ARCHIVES = sorted((HERE / "kept").glob("kiln-*.tar.gz"))
MOST_BYTES = 1 << 20  # of all archives: the repository keeps them for ever
CLOSE = 1e-4


class KeptTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.assertTrue(ARCHIVES)

    def each(self, *parts):
        """Every archive, with these of its parts unpacked to a folder."""
        for archive in ARCHIVES:
            folder = self.folder / archive.name
            with tarfile.open(archive) as file:
                file.extractall(folder, [one for one in file if one.name.split("/")[0] in parts], filter="data")
            yield folder

    def run_in(self, folder, *words):
        done = kiln(*words, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def rows(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_models_answer_as_they_did(self):
        for folder in self.each("photos", "model", "scores.jsonl"):
            kept = self.rows(folder / "scores.jsonl")
            self.run_in(folder, *make.SCORE, "again.jsonl")
            for row, old in zip(self.rows(folder / "again.jsonl"), kept, strict=True):
                self.assertLessEqual(set(old), set(row))
                for name, value in old.items():
                    if isinstance(value, float):
                        self.assertAlmostEqual(row[name], value, delta=CLOSE, msg=name)
                    else:
                        self.assertEqual(row[name], value, name)
            self.assertGreater(len({old["probability_circle"] for old in kept}), 1)  # that say something
            self.assertLess(max(old["confidence"] for old in kept), .99)
            self.run_in(folder, "export", "--trained-model-path", "model", "--output-path", "model.onnx")

    def test_shards_have_the_same_images(self):
        for folder in self.each("photos", "shards"):
            own = json.loads(self.run_in(folder, "inspect", "photos/val", "--json"))
            for form in make.FORMATS:
                read = json.loads(self.run_in(folder, "inspect", f"shards/{form}", "--json"))
                self.assertEqual((read["images"], read["classes"]), (own["images"], own["classes"]), form)

    def test_a_run_goes_on(self):
        for folder in self.each("photos", "checkpoints", "start.pth"):
            record = json.loads((next((folder / "checkpoints").glob("checkpoint-*")) / "checkpoint.json").read_text())
            epoch = record["best"]["epoch"]
            words = make.run_words("new")
            process = make.start_until(self, f"Epoch {epoch + 1},", [make.KILN, *words], cwd=folder)
            process.terminate()
            process.communicate(timeout=100)
            with open(folder / "new-logs/epochs.csv") as file:
                epochs = [int(row["epoch"]) for row in csv.DictReader(file)]
            self.assertEqual(epochs, [*range(1, epochs[-1] + 1)])
            self.assertGreater(epochs[-1], epoch)

    def test_they_are_small(self):
        self.assertLess(sum(archive.stat().st_size for archive in ARCHIVES), MOST_BYTES)


if __name__ == "__main__":
    main()
