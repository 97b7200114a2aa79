"""Pictures for people come from a module (libkiln_pictures.so). Without it they are left out with a sentence, and every number
and model has the same bits as with it: its LAPACK and its threads change nothing of LibTorch's."""
import csv
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from flow import KILN, files_below, jpeg_size, kiln, main, shared_files

MODULE = "libkiln_pictures.so"


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


class PicturesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """A model of 64 pixels, which leave a heat map more than one."""
        cls.made, place = shared_files(), pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, place)
        cls.model = place / "model"
        made = kiln(*cls.train_words(), "--trained-model-path", cls.model, "--log-path", place / "logs", "--epochs", 1,
                    "--image-size", 64)
        assert made.returncode == 0, made.stderr

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "with").mkdir()
        (self.folder / "without").mkdir()
        (self.folder / "program").mkdir()
        for part in ("libkiln.so", "libkiln_onednn.so"):
            shutil.copy(pathlib.Path(KILN).parent / part, self.folder / "program")
        self.without = shutil.copy(KILN, self.folder / "program/kiln")

    @classmethod
    def train_words(cls):
        return ["train", "--untrained-model-path", cls.made / "untrained", "--train-data-path", cls.made / "data/train",
                "--valid-data-path", cls.made / "data/val", "--batch-size", 8, "--device", "cpu"]

    def both(self, *words):
        """Runs a command with the module, for `with/`, and without, for `without/`; returns both folders. It warns without."""
        folders = []
        for program, name in ((KILN, "with"), (self.without, "without")):
            folder = self.folder / name
            done = subprocess.run([program, *(str(word).replace("OUT", str(folder)) for word in words), "--threads", "1"],
                                  capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual((done.stdout + done.stderr).count(MODULE), 1 if name == "without" else 0, done.stdout + done.stderr)
            folders.append(folder)
        return folders

    def test_train(self):
        drawn, bare = self.both(*self.train_words(), "--trained-model-path", "OUT/model", "--log-path", "OUT/logs", "--epochs", 2)
        for name in ("model", "model.safetensors", "index_to_label.csv"):
            self.assertEqual(files_below(drawn / "model")[name], files_below(bare / "model")[name], name)
        self.assertEqual([(folder / "logs/first_batch.jpg").exists() for folder in (drawn, bare)], [True, False])
        pages = [(folder / "logs/report.html").read_text() for folder in (drawn, bare)]
        self.assertEqual(["data:image/jpeg" in page for page in pages], [True, False])

    def test_what_the_network_sees(self):
        shown = []
        for seed in (1, 2):
            done = kiln(*self.train_words(), "--trained-model-path", self.folder / "model", "--log-path", self.folder / "logs",
                        "--epochs", 1, "--mixup", 0.5, "--augment", "standard", "--random-seed", seed)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            shown.append((self.folder / "logs/first_batch.jpg").read_bytes())
        self.assertEqual((self.folder / "logs.before/first_batch.jpg").read_bytes(), shown[0])
        self.assertFalse((self.folder / "logs/first_batch.before.jpg").exists())
        self.assertNotEqual(*shown)
        width, height = jpeg_size(shown[1])
        self.assertEqual(width % 8, 0)  # two batches of 8 images, a row each
        self.assertGreater(width, 2 * height)

    def test_evaluate(self):
        drawn, bare = self.both("evaluate", "--trained-model-path", self.model, "--data-path", self.made / "data/val",
                                "--output-path", "OUT/report", "--explain", "OUT/maps", "--device", "cpu")
        told = [json.loads((folder / "report/evaluation.json").read_text()) for folder in (drawn, bare)]
        self.assertEqual(told[0]["models"][0]["top1"], told[1]["models"][0]["top1"])
        self.assertEqual(*[(folder / "report/answers.csv").read_bytes() for folder in (drawn, bare)])
        self.assertGreater(len(list((drawn / "maps").glob("*.jpg"))), 0)
        self.assertEqual(list((bare / "maps").glob("*.jpg")), [])
        self.assertEqual({row["file"] for row in rows_of(bare / "maps/explanations.csv")}, {""})

    def test_score(self):
        drawn, bare = self.both("score", "--trained-model-path", self.model, "--data-path", self.made / "data/val",
                                "--output-path", "OUT/scores.csv", "--all-classes", "--explain", "OUT/maps", "--device", "cpu")
        self.assertEqual((drawn / "scores.csv").read_bytes(), (bare / "scores.csv").read_bytes())
        shown = rows_of(drawn / "maps/explanations.csv")[0]
        self.assertEqual(jpeg_size((drawn / "maps" / shown["file"]).read_bytes()), (64, 64))

    def test_audit(self):
        drawn, bare = self.both("audit", "--trained-model-path", self.made / "trained", "--data-path", self.made / "data/train",
                                "--output-path", "OUT/audit", "--device", "cpu")
        told = [json.loads((folder / "audit/audit.json").read_text()) for folder in (drawn, bare)]
        self.assertLessEqual({image["kind"] for image in told[1]["flawed"]}, {"outlier"})
        for name in ("agreed", "judged", "doubtful", "classes", "duplicates"):
            self.assertEqual(told[0].get(name), told[1].get(name), name)


if __name__ == "__main__":
    main()
