"""What `kiln audit` and a run's report say of labels that can be read without looking at what images show."""
import json
import pathlib
import random
import shutil
import tempfile

from flow import FlowTest, kiln, main
from test_audit import pillow


class ShortcutsTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        """Drawings, shuffled into two classes that differ in nothing."""
        super().setUpClass()
        cls.image_kind = pillow()
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="kiln-shortcuts-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        done = kiln("demo-data", "--output-path", cls.made / "drawn", "--images", 240, "--classes", 3)
        assert done.returncode == 0, done.stderr
        drawn = sorted((cls.made / "drawn").rglob("*.png"))
        random.Random(3).shuffle(drawn)
        for number, path in enumerate(drawn):
            target = cls.made / "shuffled" / "ab"[number % 2] / f"{number}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)

    def changed(self, change):
        """A copy of the images; `change` gives those of the class "b" another look and another name."""
        if not self.image_kind:
            self.skipTest("no Pillow to draw the images")
        folder = self.folder / "photos"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.made / "shuffled", folder)
        for path in sorted(folder.glob("b/*")):
            with self.image_kind.open(path) as image:
                picture = image.convert("RGB")
            path.unlink()
            change(picture, path)
        return folder

    def found(self, data, *options):
        shutil.rmtree(self.folder / "audit", ignore_errors=True)
        result = kiln("audit", "--data-path", data, "--trained-model-path", self.trained_model, "--output-path",
                      self.folder / "audit", "--device", "cpu", *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        shortcuts = json.loads((self.folder / "audit/audit.json").read_text())["shortcuts"]
        page = (self.folder / "audit/audit.html").read_text()
        for text in (result.stdout, page):
            self.assertEqual("Labels can be read" in text, bool(shortcuts))
            for one in shortcuts or ():
                self.assertIn(one["fact"] + (" alone" if one["is_alone"] else " together"), text)
        return shortcuts

    def test_audit_names_what_gives_labels_away(self):
        def bright(picture, path):
            picture.point(lambda value: 155 + value * 100 // 255).save(path)

        for fact, change in (("brightness", bright),
                             ("file type", lambda picture, path: picture.save(path.with_suffix(".jpg"), quality=95)),
                             ("width", lambda picture, path: picture.resize((48, 32)).save(path))):
            with self.subTest(fact):
                found = {one["fact"]: one for one in self.found(self.changed(change))}
                self.assertIn(fact, found)
                self.assertTrue(found[fact]["is_alone"])
                self.assertGreater(found[fact]["told"], 0.95 * found[fact]["images"])
                self.assertLessEqual(found[fact]["images"], 240)
                self.assertEqual(next(iter(found)), max(found, key=lambda name: found[name]["told"]))

    def test_audit_is_silent_where_nothing_does(self):
        self.assertEqual(self.found(self.made / "shuffled"), [])
        several = self.made / "several.csv"
        several.write_text("path,label\n" + "".join(
            f"{path.relative_to(self.made)},{'a;b' if number % 3 else 'b'}\n"
            for number, path in enumerate(sorted((self.made / "shuffled").glob("*/*")))))
        self.assertIsNone(self.found(several, "--task", "multi-label"))

    def test_the_report_says_so_by_files(self):
        data = self.changed(lambda picture, path: picture.save(path.with_suffix(".jpg"), quality=95))
        for folder, is_told in ((data, True), (self.made / "shuffled", False)):
            with self.subTest(folder.name):
                run = self.folder / f"run-{folder.name}"
                done = kiln("train", folder, "--run-path", run, "--untrained-model-path", self.untrained, "--epochs", 1,
                            "--device", "cpu", "--learning-rate", "0.0001")
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                start = json.loads((run / "logs/metrics.jsonl").read_text().splitlines()[0])
                self.assertEqual("file type" in [one["fact"] for one in start["data"].get("shortcuts", [])], is_told)
                page = (run / "logs/report.html").read_text()
                self.assertEqual("file type alone" in page, is_told)
                self.assertEqual("Labels can be read" in page, is_told)


if __name__ == "__main__":
    main()
