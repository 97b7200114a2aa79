"""`kiln export`: what it refuses, what it writes, and the model card. tests/parity/export_parity.py runs its files."""
import json
import shutil

from flow import FlowTest, files_below, kiln, main

FORMATS = ("onnx", "torchvision", "timm", "mlflow")
FOLDERS = ("timm", "mlflow")


class ExportTest(FlowTest):
    def export(self, *words, model=None, target="exported"):
        return kiln("export", "--trained-model-path", model or self.trained_model, "--output-path", self.folder / target, *words)

    def copy_model(self):
        shutil.copytree(self.trained_model, self.folder / "model")
        return self.folder / "model"

    def test_every_format_has_a_model_card(self):
        for name in FORMATS:
            with self.subTest(format=name):
                result = self.export("--format", name, target=name)
                self.assertEqual(result.returncode, 0, result.stderr)
                card = self.folder / (f"{name}/README.md" if name in FOLDERS else f"{name}.md")
                training = json.loads((self.trained_model / "training.json").read_text())
                top1 = training["epochs"][training["saved_epoch"] - 1]["top1"]
                self.assertRegex(card.read_text(), r"with kiln \S+, \d{4}-\d\d-\d\d \d\d:\d\d UTC")
                self.assert_names(card.read_text(), "resnet18", "| circle | 16 | 4 |", f"{100 * top1:.1f} %", "12 validation")

    def test_a_model_without_a_record_of_its_training(self):
        model = self.copy_model()
        (model / "training.json").unlink()
        self.assertEqual(self.export(model=model).returncode, 0)
        self.assertNotIn("validation images |", (self.folder / "exported.md").read_text())
        (model / "training.json").write_text('{"epochs": 3}')
        self.assert_refused(self.export(model=model, target="other"), 1, "training.json")

    def test_a_model_whose_classes_were_renamed(self):
        """The record of its training counts the images of the former names."""
        model = self.copy_model()
        table = model / "index_to_label.csv"
        table.write_text(table.read_text().replace("circle", "disc"))
        self.assertEqual(self.export(model=model).returncode, 0)
        self.assertNotIn("| disc | 0 |", (self.folder / "exported.md").read_text())

    def test_an_output_that_exists_is_left_alone(self):
        for name in ("exported", "exported.md"):
            with self.subTest(name=name):
                (self.folder / name).write_text("precious")
                self.assert_refused(self.export(), 3, name)
                self.assertEqual(files_below(self.folder), {name: b"precious"})
                (self.folder / name).unlink()

    def test_inputs_that_are_refused(self):
        checkpoint = self.folder / "checkpoint"
        self.assertEqual(self.train(checkpoint_path=checkpoint).returncode, 0)
        for model, word in ((checkpoint, "checkpoints"), (self.untrained, "untrained"), (self.data / "train", "images"),
                            (self.folder / "nowhere", "exist")):
            with self.subTest(word=word):
                self.assert_refused(self.export(model=model), 1, "--trained-model-path", word)
        self.assert_refused(self.export("--format", "tflite"), 2, "--format", *FORMATS)
        for name in FOLDERS:
            self.assert_refused(self.export("--format", name, "--half"), 2, "--half")
        self.assertFalse((self.folder / "exported").exists())

    def test_a_folder_for_timm(self):
        result = self.export("--format", "timm")
        self.assertEqual(result.returncode, 0, result.stderr)
        folder = self.folder / "exported"
        self.assertEqual(sorted(files_below(folder)), ["README.md", "config.json", "model.safetensors"])
        config = json.loads((folder / "config.json").read_text())
        how = json.loads((self.trained_model / "preprocessing.json").read_text())
        labels = [row.split(",")[1] for row in (self.trained_model / "index_to_label.csv").read_text().split()[1:]]
        self.assertEqual((config["architecture"], config["num_features"]), ("resnet18", 512))
        self.assertEqual(config["label_names"], labels)
        pixels = config["pretrained_cfg"]
        self.assertEqual(pixels["input_size"], [3, *how["input_size"]])
        self.assertEqual((pixels["mean"], pixels["std"]), (how["mean"], how["std"]))
        self.assertEqual((pixels["first_conv"], pixels["classifier"]), ("conv1", "fc"))
        made = kiln("init-model", "resnet18", "--weights", folder / "model.safetensors", "--untrained-model-path",
                    self.folder / "made")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn(f"{len(labels)} classes", made.stdout)

    def test_a_network_that_torchvision_lacks(self):
        made = self.train(untrained_model_path=None, model_name="vit_s_16", image_size=32, steps=1)
        self.assertEqual(made.returncode, 0, made.stderr)
        result = self.export("--format", "torchvision", model=self.folder / "model")
        self.assert_refused(result, 1, "torchvision has no vit_s_16", "onnx")
        result = self.export("--format", "timm", model=self.folder / "model")
        self.assertEqual(result.returncode, 0, result.stderr)
        config = json.loads((self.folder / "exported/config.json").read_text())
        self.assertEqual(config["architecture"], "vit_small_patch16_224")
        self.assertEqual(config["model_args"], {"img_size": [32, 32]})

    def test_images_that_onnx_cannot_prepare(self):
        model = self.copy_model()
        how = json.loads((model / "preprocessing.json").read_text())
        path = model / "preprocessing.json"
        path.write_text(json.dumps({**how, "version": 2, "transforms": [["Resize", 40], ["Grayscale", 3]]}))
        self.assert_refused(self.export(model=model), 1, "Grayscale", "--input pixels")
        self.assertEqual(self.export("--input", "pixels", model=model).returncode, 0)
        path.unlink()
        self.assert_refused(self.export(model=model, target="other"), 1, "preprocessing.json", "--input pixels")


if __name__ == "__main__":
    main()
