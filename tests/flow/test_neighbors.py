"""The nearest training images beside an answer: `train --keep-features`, `--neighbors` of score and serve."""
import csv
import pathlib
import shutil
import tempfile

from flow import FlowTest, kiln, main, train_on_shapes
from serving import Server
from weight_files import read_safetensors

FILE = "training_features.safetensors"


class NeighborsTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-neighbors-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.images, cls.model = cls.place / "data", cls.place / "model"
        kiln("demo-data", "--output-path", cls.images, "--images", 150, "--classes", 3, "--size", 32)
        cls.names = sorted(str(path.relative_to(cls.images / "train")) for path in (cls.images / "train").rglob("*.*"))
        result = cls.train(cls.model, "--keep-features", "True")
        assert result.returncode == 0, result.stdout + result.stderr

    @classmethod
    def train(cls, model, *words):
        return train_on_shapes(cls.images, model, cls.place / f"logs-{model.name}", "--epochs", 1, *words)

    def score(self, images, *words, model=None):
        return kiln("score", "--trained-model-path", model or self.model, "--data-path", images, "--device", "cpu", *words)

    def rows(self, images, *words, model=None, table="scores.csv"):
        result = self.score(images, "--output-path", self.folder / table, *words, model=model)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.folder / table, newline="") as file:
            return list(csv.DictReader(file))

    def test_the_file_has_all_training_images(self):
        tensors = read_safetensors(self.model / FILE)
        self.assertEqual(tensors["rows"][:2], ("F16", [len(self.names), 256]))
        self.assertEqual(tensors["axes"][:2], ("F16", [512, 256]))
        self.assertEqual(tensors["names"][2].decode().split("\0"), [*self.names, ""])
        inspected = kiln("inspect", self.model)
        self.assertEqual(inspected.returncode, 0, inspected.stdout + inspected.stderr)

    def test_a_training_image_is_its_own_nearest(self):
        rows = self.rows(self.images / "train", "--neighbors", 3)
        names = list(rows[0])
        self.assertEqual(names[names.index("fault") + 1:][:3], ["neighbor_1", "neighbor_2", "neighbor_3"])
        self.assertIn(names[-1], ("alike", "neighbor_3"))
        self.assertEqual([row["neighbor_1"] for row in rows], [row["path"] for row in rows])
        for row in rows:
            self.assertEqual(len({row["neighbor_1"], row["neighbor_2"], row["neighbor_3"]} & set(self.names)), 3)
        page = self.folder / "answers.html"
        self.rows(self.images / "val", "--neighbors", 2, "--page", page, table="shown.csv")
        first = self.rows(self.images / "val", "--neighbors", 2)[0]
        self.assertIn(f"near: {first['neighbor_1']}, {first['neighbor_2']}", page.read_text())
        self.assertNotIn("neighbor_1", self.rows(self.images / "train", table="plain.csv")[0])
        most = self.rows(self.images / "val", "--neighbors", 100, table="most.csv")[0]
        named = [most[f"neighbor_{place}"] for place in range(1, 101)]
        self.assertEqual(len(set(named) & set(self.names)), min(100, len(self.names)))

    def test_server_and_lines_name_the_same(self):
        expected = self.rows(self.images / "val", "--neighbors", 2)[0]
        server = Server(self, self.model, "--neighbors", 2)
        status, answer = server.json("POST", "/predict", (self.images / "val" / expected["path"]).read_bytes())
        self.assertEqual(status, 200)
        self.assertEqual([answer["neighbor_1"], answer["neighbor_2"]], [expected["neighbor_1"], expected["neighbor_2"]])
        lines = self.score(self.images / "val" / expected["path"], "--neighbors", 2)
        self.assertIn(f"{expected['neighbor_1']}, {expected['neighbor_2']}", lines.stdout)

    def test_ranks_and_a_frozen_head_know_the_same_images(self):
        names = read_safetensors(self.model / FILE)["names"]
        for words in (("--ranks", 2), ("--freeze", "backbone", "--weights", self.model),
                      ("--freeze", "backbone", "--weights", self.model, "--ranks", 2)):
            with self.subTest(words=words):
                model = self.folder / f"model-{len(words)}"
                result = self.train(model, "--keep-features", "True", *words)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(read_safetensors(model / FILE)["names"], names)
                rows = self.rows(self.images / "train", "--neighbors", 1, model=model, table=f"{model.name}.csv")
                self.assertEqual([row["neighbor_1"] for row in rows], [row["path"] for row in rows])

    def test_refusals(self):
        self.assert_refused(self.score(self.images / "val", "--neighbors", 2, model=self.trained_model), 1, "--keep-features")
        self.assert_refused(self.train(self.folder / "m", "--keep-features", "True", "--no-hashes", "True"), 2, "--keep-features")
        self.assertFalse((self.trained_model / FILE).exists())
        model = self.folder / "model"
        shutil.copytree(self.model, model)
        good = (model / FILE).read_bytes()
        for data in (b"", good[:50], good[:-10], good.replace(b'"rows"', b'"sows"')):
            (model / FILE).write_bytes(data)
            self.assert_refused(self.score(self.images / "val", model=model), 1, FILE)
        self.assertEqual(self.train(model).returncode, 0)  # replaced as a whole
        self.assertFalse((model / FILE).exists())


if __name__ == "__main__":
    main()
