"""Pictures that are not square: what --fit does to them in training and in all that a trained model answers."""
import json
import random
import re
import shutil

from flow import FlowTest, explanations, jpeg_size, kiln, main


def wide_picture(draws, width, height, left=None):
    """A PPM of noise; `left` colors its first tenth."""
    edge = width // 10
    rows = bytearray()
    for _ in range(height):
        row = bytearray(draws.randrange(90, 166) for _ in range(width * 3))
        if left:
            row[:edge * 3] = bytes(left) * edge
        rows += row
    return b"P6 %d %d 255\n" % (width, height) + bytes(rows)


class FitTest(FlowTest):
    def make(self, folder, width=120, height=20, images=24, label="ab"):
        """Classes that differ at the left edge alone."""
        draws = random.Random(1)
        for part, count in (("train", images), ("val", images // 2)):
            for number, name in enumerate(label):
                target = self.folder / folder / part / name
                target.mkdir(parents=True)
                for i in range(count):
                    color = ((250, 10, 10), (10, 10, 250), (10, 250, 10), (250, 250, 10))[number]
                    (target / f"{folder}{i}.ppm").write_bytes(wide_picture(draws, width, height, color))
        return self.folder / folder

    def fit(self, data, *words, model="model", code=0):
        result = kiln("train", "--train-data-path", data / "train", "--valid-data-path", data / "val", "--model-name", "resnet18",
                      "--trained-model-path", self.folder / model, "--log-path", self.folder / "logs", "--epochs", 1,
                      "--batch-size", 16, "--device", "cpu", "--threads", 2, *words)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def prepared(self, model="model"):
        return json.loads((self.folder / model / "preprocessing.json").read_text())

    def test_classes_at_the_edge_are_learned_from_whole_pictures(self):
        """Newcomer: four classes that differ at the left edge of wide pictures, of which a crop sees nothing."""
        data = self.make("data", images=40, label="abcd")
        for fit, least, most in (("crop", 0, .6), ("pad", .9, 1), ("stretch", .9, 1)):
            with self.subTest(fit):
                self.fit(data, "--fit", fit, "--image-size", 32, "--epochs", 4, "--learning-rate", .03, "--augment", "none",
                         "--save", "last")
                top1 = self.training()["epochs"][-1]["top1"]
                self.assertTrue(least <= top1 <= most, top1)
                self.assertEqual(self.training()["data"]["fit"], fit)
                self.assertAlmostEqual(self.training()["data"]["cut_away"], 5 / 6)
                page = (self.folder / "logs/report.html").read_text()
                self.assertEqual("--fit crop" in page.split('id="warnings"')[0], fit == "crop")
                evaluated = kiln("evaluate", "--trained-model-path", self.folder / "model", "--data-path", data / "val",
                                 "--output-path", self.folder / "evaluation", "--device", "cpu")
                self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
                found = json.loads((self.folder / "evaluation/evaluation.json").read_text())["models"][0]
                self.assertEqual(found["top1"], top1)

    def test_what_is_stored_and_shown(self):
        """pad and stretch are in the model's files, and heat maps show the picture without its bars."""
        data = self.make("data", width=150, height=30, images=8)
        for fit, size in (("pad", (64, 12)), ("stretch", (64, 64)), ("crop", (64, 64))):
            with self.subTest(fit):
                self.fit(data, "--fit", fit, "--image-size", 64, "--normalization", "imagenet")
                how = self.prepared()
                self.assertEqual((how["version"], how.get("fit", "crop")), (1 if fit == "crop" else 3, fit))
                self.assertEqual(how["resize_short_side"], 73 if fit == "crop" else None)
                self.assertEqual(how.get("fill"), [124, 116, 104] if fit == "pad" else None)
                facts = json.loads(kiln("inspect", self.folder / "model", "--json").stdout)
                self.assertEqual(facts["fit"], fit)
                shutil.rmtree(self.folder / "maps", ignore_errors=True)
                scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", data / "val/a",
                              "--output-path", self.folder / "scores.csv", "--explain", self.folder / "maps")
                self.assertEqual(scored.returncode, 0, scored.stderr)
                explanations(self, self.folder / "maps", size)

    def test_auto(self):
        """crop up to a third, by the median of the shapes; whole pictures beyond; crop where the designer's rules hold."""
        wide, photos = self.make("wide", width=90, height=30, images=8), self.make("photos", width=300, height=200, images=8)
        few = self.folder / "few"
        shutil.copytree(photos, few)
        shutil.copytree(wide / "val", few / "train", dirs_exist_ok=True)  # a third of the images
        made = self.folder / "made"
        for part in ("train", "val"):
            self.assertEqual(kiln("convert", "--input-path", wide / part, "--output-path", made / part).returncode, 0)
        modern = ["--recipe", "modern", "--image-size", 32, "--augment", "none"]
        cases = {"photos": (photos, modern, "crop"), "wide": (wide, modern, "whole"), "few": (few, modern, "crop"),
                 "designer": (wide, ["--image-size", 32], "crop"),
                 "directory": (made, modern, "crop"), "eval-crop": (wide, [*modern, "--eval-crop", 32], "crop")}
        for name, (data, words, wanted) in cases.items():
            with self.subTest(name):
                self.fit(data, *words)
                fit = self.prepared().get("fit", "crop")
                self.assertEqual("crop" if fit == "crop" else "whole", wanted)
                start = self.start_event()["data"]
                self.assertEqual(start["fit"], fit)
                self.assertAlmostEqual(start["cut_away"], 1 / 3 if data in (photos, few) else 2 / 3)
        for folder, share in ((photos, 1 / 3), (wide, 2 / 3)):
            report = json.loads(kiln("inspect", folder / "train", "--image-size", 32, "--json").stdout)
            self.assertAlmostEqual(report["cut_away"], share)
            self.assertEqual(any("--fit" in note for note in report["notes"]), share > .5)

    def test_pictures_of_one_small_size_are_used_as_stored(self):
        data = self.make("data", width=60, height=36, images=8)
        self.fit(data, "--recipe", "modern")
        self.assertEqual((self.prepared()["input_size"], self.start_event()["data"]["cut_away"]), ([36, 60], 0))

    def test_refused_together(self):
        data = self.make("data", images=2)
        for fit in ("pad", "stretch"):
            for option in ("--eval-resize", "--eval-crop"):
                refused = self.fit(data, "--fit", fit, option, 64, code=1)
                self.assert_names(refused.stderr, option, "--fit " + fit)
        made = kiln("transform", "init", "--output-transformation-directory", self.folder / "operations", "--resize", 40)
        if made.returncode == 0:
            refused = self.fit(data, "--fit", "crop", "--transform-path", self.folder / "operations", code=1)
            self.assert_names(refused.stderr, "--fit", "--transform-path")

    def test_resume(self):
        """--fit decides the result: a checkpoint with another one is refused, and auto goes on with its own."""
        data = self.make("data", width=90, height=30, images=16)
        options = ["--recipe", "modern", "--image-size", 32, "--augment", "none", "--checkpoint-path", self.folder / "kept"]
        self.fit(data, *options, "--fit", "stretch")
        for other in ("pad", "crop"):
            refused = self.fit(data, *options, "--fit", other, "--epochs", 2, code=1)
            self.assert_names(refused.stderr, "--fit", "stretch", other)
        self.fit(data, *options, "--epochs", 2)
        self.assertEqual(self.prepared()["fit"], "stretch")
        for state in (self.folder / "kept").rglob("state.json"):  # as earlier versions wrote it
            text = re.sub(r'"fit": ?"[a-z]+", ?', "", state.read_text())
            self.assertNotIn('"fit":"', text.replace(" ", "").split('"options"')[0])

    def test_ranks_agree(self):
        """Rank 0 reads the shapes for all."""
        data = self.make("data", width=90, height=30, images=16)
        self.fit(data, "--recipe", "modern", "--image-size", 32, "--ranks", 2, "--threads", 1, "--batch-size", 8)
        self.assertNotEqual(self.prepared().get("fit", "crop"), "crop")


if __name__ == "__main__":
    main()
