"""Pictures that are not square: what --fit does to them in training and in all that a trained model answers."""
import json
import random
import shutil

from flow import FlowTest, explanations, kiln, main


WHOLE = "pad"  # what auto takes
PALE = bytes(90 + value % 76 for value in range(256))


def wide_picture(draws, width, height, left):
    """A PPM of noise whose left tenth has one color."""
    edge = width // 10
    noise = draws.randbytes(height * (width - edge) * 3).translate(PALE)
    rows = [bytes(left) * edge + noise[at:at + (width - edge) * 3] for at in range(0, len(noise), (width - edge) * 3)]
    return b"P6 %d %d 255\n" % (width, height) + b"".join(rows)


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

    def fit(self, data, model="model", code=0, **options):
        options = {"train_data_path": data / "train", "valid_data_path": data / "val", "trained_model_path": self.folder / model,
                   "model_name": "resnet18", "log_path": self.folder / "logs", "epochs": 1, "batch_size": 16, "device": "cpu",
                   "threads": 2, **options}
        result = kiln("train", *(word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)))
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def prepared(self, model="model"):
        return json.loads((self.folder / model / "preprocessing.json").read_text())

    def test_classes_at_the_edge_are_learned_from_whole_pictures(self):
        """Newcomer: four classes that differ at the left edge of wide pictures, of which a crop sees nothing."""
        data = self.make("data", images=40, label="abcd")
        for fit, least, most in (("crop", 0, .6), ("pad", .9, 1), ("stretch", .9, 1)):
            with self.subTest(fit):
                self.fit(data, fit=fit, image_size=32, epochs=5, learning_rate=.03, augment="none", save="last")
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
        for fit, size in (("pad", (64, 12)), ("stretch", (64, 64))):
            with self.subTest(fit):
                self.fit(data, fit=fit, image_size=64, normalization="imagenet")
                how = self.prepared()
                self.assertEqual((how["fit"], how["resize_short_side"]), (fit, None))
                self.assertEqual(how.get("fill"), [124, 116, 104] if fit == "pad" else None)
                facts = json.loads(kiln("inspect", self.folder / "model", "--json").stdout)
                self.assertEqual(facts["fit"], fit)
                shutil.rmtree(self.folder / "maps", ignore_errors=True)
                scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", data / "val/a",
                              "--output-path", self.folder / "scores.csv", "--explain", self.folder / "maps")
                self.assertEqual(scored.returncode, 0, scored.stderr)
                explanations(self, self.folder / "maps", size)

    def test_auto(self):
        """crop up to a third, by the median of the shapes; whole pictures beyond, as rank 0 finds them; crop for an
        ImageDirectory."""
        wide, photos = self.make("wide", width=300, height=100, images=8), self.make("photos", width=270, height=180, images=8)
        shutil.copytree(wide / "val", photos / "train", dirs_exist_ok=True)  # a third of the images
        for part in ("train", "val"):
            self.assertEqual(kiln("convert", "--input-path", wide / part, "--output-path", self.folder / "made" / part).returncode, 0)
        ranks = {"ranks": 2, "threads": 1, "batch_size": 4}
        for data, options, fit, cut_away in ((photos, {}, "crop", 1 / 3), (wide, ranks, WHOLE, 2 / 3),
                                             (self.folder / "made", {}, "crop", 2 / 3)):
            with self.subTest(data=data.name):
                self.fit(data, recipe="modern", image_size=32, augment="none", **options)
                self.assertEqual(self.prepared().get("fit", "crop"), fit)
                start = self.start_event()["data"]
                self.assertEqual(start["fit"], fit)
                self.assertAlmostEqual(start["cut_away"], cut_away)
                report = json.loads(kiln("inspect", data / "train", "--json").stdout)
                if data.name != "made":
                    self.assertAlmostEqual(report["cut_away"], cut_away)
                    self.assertEqual(any("--fit" in note for note in report["notes"]), data == wide)

    def test_pictures_of_one_small_size_are_used_as_stored(self):
        data = self.make("data", width=60, height=36, images=2)
        self.assertEqual(json.loads(kiln("inspect", data / "train", "--json").stdout)["cut_away"], 0)

    def test_refused_together(self):
        data = self.make("data", images=2)
        for fit in ("pad", "stretch"):
            for option in ("eval_resize", "eval_crop"):
                refused = self.fit(data, fit=fit, code=2, **{option: 64})
                self.assert_names(refused.stderr, option.replace("_", "-"), "--fit " + fit)
        refused = self.fit(data, fit="crop", transform_path=data, code=2)
        self.assert_names(refused.stderr, "--fit", "--transform-path")

    def test_resume(self):
        """--fit decides the result: a checkpoint with another one is refused, and auto goes on with its own."""
        data = self.make("data", width=90, height=30, images=16)
        options = {"recipe": "modern", "image_size": 32, "augment": "none", "checkpoint_path": self.folder / "kept"}
        self.fit(data, fit="stretch", **options)
        for other in ("pad", "crop"):
            refused = self.fit(data, fit=other, epochs=2, code=1, **options)
            self.assert_names(refused.stderr, "--fit", "stretch", other)
        self.fit(data, epochs=2, **options)
        self.assertEqual(self.prepared()["fit"], "stretch")


if __name__ == "__main__":
    main()
