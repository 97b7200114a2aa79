"""Which images to label next: `kiln select`, its table and page, and the labels that come back."""
import csv
import pathlib
import shutil
import struct
import tempfile
import unittest
import zlib

from browser import PROGRAM, Browser
from flow import FlowTest, kiln, main, train_on_shapes

CLASSES = ["circle", "square", "triangle"]


class SelectTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-select-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.images, cls.model, cls.photos = cls.place / "data", cls.place / "model", cls.place / "photos"
        kiln("demo-data", "--output-path", cls.images, "--images", 600, "--classes", 3, "--size", 32)
        kiln("demo-data", "--output-path", cls.place / "new", "--images", 60, "--classes", 3, "--size", 32, "--random-seed", 8)
        trained = train_on_shapes(cls.images, cls.model, cls.place / "logs", "--epochs", 4, "--keep-features", "True")
        assert trained.returncode == 0, trained.stdout + trained.stderr
        cls.photos.mkdir()
        cls.truth = {}
        for path in sorted((cls.place / "new").rglob("*.*")):
            name = f"{path.parent.name[:1]}-{path.name}"
            cls.truth[name] = path.parent.name
            shutil.copy(path, cls.photos / name)

    def setUp(self):
        super().setUp()
        shutil.copytree(self.photos, self.folder / "photos")
        self.own = self.folder / "photos"

    def select(self, *words, table="select.csv", model=None):
        return kiln("select", self.own, "--trained-model-path", model or self.model, "--output-path", self.folder / table,
                    "--device", "cpu", *words)

    def chosen(self, *words, table="select.csv", **places):
        result = self.select(*words, table=table, **places)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.folder / table, newline="") as file:
            return list(csv.DictReader(file))

    def test_a_table_of_images_and_the_same_one_again(self):
        rows = self.chosen("--number", 12)
        self.assertEqual(list(rows[0]), ["path", "label", "guess", "confidence", "alike"])
        self.assertEqual(len({row["path"] for row in rows}), 12)
        for row in rows:
            self.assertTrue((self.own / row["path"]).is_file())
            self.assertEqual(row["label"], "")
            self.assertIn(row["guess"], CLASSES)
            self.assertTrue(0 < float(row["confidence"]) <= 1 and 0 < float(row["alike"]) <= 1)
        self.assertEqual(rows, self.chosen("--number", 12, "--batch-size", 7, table="again.csv"))

    def test_copies_and_images_of_the_model_are_left_out(self):
        names = sorted(self.truth)
        for number, name in enumerate(names[:20]):
            shutil.copy(self.own / name, self.own / f"zz-{number}.png")
        for part in ("train", "val"):
            for number, path in enumerate(sorted((self.images / part).rglob("*.*"))[:15]):
                shutil.copy(path, self.own / f"seen-{part}-{number}.png")
        word = struct.pack(">I", 3) + b"tEXta\0b" + struct.pack(">I", zlib.crc32(b"tEXta\0b"))
        for number, path in enumerate(sorted((self.images / "train").rglob("*.png"))[15:20]):  # other bytes, the same pixels
            data = path.read_bytes()
            (self.own / f"same-{number}.png").write_bytes(data[:-12] + word + data[-12:])
        (self.own / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        result = self.select("--number", 1000)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("30 images that the model was made with, 25 copies, 1 bad image", result.stdout + result.stderr)
        self.assertIn("bad.png", result.stdout + result.stderr)
        with open(self.folder / "select.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(sorted(row["path"] for row in rows), names)
        self.assertIn(f"Only {len(names)} of the 1,000", result.stdout + result.stderr)

    def test_models_without_features_or_hashes(self):
        model = self.folder / "model"
        shutil.copytree(self.model, model)
        (model / "features.safetensors").unlink()
        (model / "seen_images.bin").unlink()
        rows = self.chosen("--number", 5, model=model)
        self.assertEqual([row["alike"] for row in rows], [""] * 5)

    def test_labels_come_back(self):
        rows = self.chosen("--number", 30)
        for row in rows:
            row["label"] = self.truth[row["path"]]
        filled = self.folder / "filled.csv"
        with open(filled, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        result = kiln("train", "--data-path", self.own, "--labels", filled, "--model-name", "resnet18", "--image-size", 32,
                      "--trained-model-path", self.folder / "next", "--log-path", self.folder / "logs", "--epochs", 1,
                      "--device", "cpu", "--batch-size", 8)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.folder / "logs/split.csv", newline="") as file:
            known = {row["path"]: row["label"] for row in csv.DictReader(file)}
        self.assertEqual(known, {row["path"]: row["label"] for row in rows})

    def test_refusals(self):
        self.assert_refused(self.select("--number", 0), 1, "--number")
        self.assert_refused(self.select(table="table.parquet"), 2, "--output-path")
        self.assert_refused(self.select("--page", self.folder / "select.csv"), 2, "--page")
        (self.folder / "select.csv").write_text("path,label\n")
        self.assert_refused(self.select(), 3, "select.csv")
        self.assertEqual((self.folder / "select.csv").read_text(), "path,label\n")
        for path in self.own.iterdir():
            path.write_bytes(b"no image")
        self.assert_refused(self.select("--max-bad-images", "100%", table="none.csv"), 1, "not an image")
        self.assertFalse((self.folder / "none.csv").exists())

    def test_several_labels_are_refused(self):
        (self.folder / "list.csv").write_text("path,label\n" + "".join(
            f"photos/{name},{truth};{'light' if number % 2 else 'dark'}\n" for number, (name, truth) in enumerate(self.truth.items())))
        result = kiln("train", "--data-path", self.folder / "list.csv", "--task", "multi-label",
                      "--model-name", "resnet18", "--image-size", 32, "--trained-model-path", self.folder / "several", "--epochs", 1,
                      "--log-path", self.folder / "logs", "--device", "cpu", "--batch-size", 8)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_refused(self.select(model=self.folder / "several"), 1, "kiln select")

    def test_the_page_shows_them(self):
        rows = self.chosen("--number", 10, "--page", self.folder / "select.html")
        page = (self.folder / "select.html").read_text()
        self.assertEqual(page.count("data:image/jpeg;base64,"), 10)
        for row in rows:
            self.assertIn(f'data-file="{row["path"]}"', page)
        self.assertIn('data-asks="' + "\n".join(CLASSES), page)

    @unittest.skipUnless(PROGRAM, "no Chromium here: install chromium-headless-shell")
    def test_labels_on_the_page_become_a_table(self):
        rows = self.chosen("--number", 5, "--page", self.folder / "select.html")
        with Browser() as browser:
            browser.open(self.folder / "select.html")
            press = "[...document.querySelectorAll('.decide')[{}].querySelectorAll('button')].find(b => b.textContent === '{}').click()"
            self.assertEqual(browser.evaluate("document.querySelector('.decide').querySelectorAll('button').length"), 3)
            browser.evaluate(press.format(0, "is " + rows[0]["guess"]))
            other = next(name for name in CLASSES if name != rows[1]["guess"])
            browser.evaluate(f"document.querySelectorAll('.decide select')[1].value = '{other}'")
            browser.evaluate(press.format(1, "is this"))
            saved = browser.evaluate("document.querySelector('textarea').value")
            self.assertEqual(browser.complaints(), [])
        self.assertEqual(list(csv.DictReader(saved.splitlines())),
                         [{"path": rows[0]["path"], "label": rows[0]["guess"]}, {"path": rows[1]["path"], "label": other}])


if __name__ == "__main__":
    main()
