"""`kiln inspect`: what directories and files hold, as a table and as JSON; its check; hostile files."""
import collections
import json
import shutil
import struct

from flow import FlowTest, kiln, main
from weight_files import read_zip, torchvision_names, write_legacy, write_safetensors, write_zip


class InspectTest(FlowTest):
    def inspect(self, path, *more, exit_code=0):
        result = kiln("inspect", path, "--json", *more)
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def spoil(self, folder):
        """Two bad images, and one that is cut off in its last quarter."""
        names = sorted(path for path in folder.rglob("*.png"))
        names[0].write_bytes(b"<!DOCTYPE html>")
        names[1].write_bytes(b"")
        jpeg = sorted(folder.rglob("*.jpg"))[0]
        jpeg.write_bytes(jpeg.read_bytes()[:-len(jpeg.read_bytes()) // 4])
        return [str(path.relative_to(folder)) for path in names[:2]], str(jpeg.relative_to(folder))

    def test_images_in_every_form(self):
        counts = collections.Counter(path.parent.name for path in (self.data / "train").rglob("*.*"))
        self.assertEqual(kiln("convert", "--input-path", self.data / "train", "--output-path",
                              self.folder / "made").returncode, 0)
        for kind, folder in (("class folders", self.data / "train"), ("COCO folder", self.write_coco()),
                             ("ImageDirectory", self.folder / "made")):
            with self.subTest(kind=kind):
                report = self.inspect(folder)
                self.assertEqual((report["kind"], report["images"], report["num_classes"]), (kind, 48, 3))
                self.assertEqual(report["classes"], [{"id": number, "name": name, "images": counts[name]}
                                                     for number, name in enumerate(sorted(counts))])
                self.assertEqual(report["most_common_sizes"], [{"width": 32, "height": 32, "images": 48}])
                table = kiln("inspect", folder)
                self.assertEqual(table.returncode, 0)
                self.assertRegex(table.stdout, rf"kind +{kind}\n")
                for name, count in counts.items():
                    self.assertRegex(table.stdout, rf"\n +\d +{name} +{count}\n")

    def test_several_sizes_and_no_labels(self):
        larger = self.folder / "larger"
        kiln("demo-data", "--output-path", larger, "--images", 12, "--classes", 2, "--size", 48)
        shutil.copytree(self.data / "val", larger / "deeper")
        report = self.inspect(larger)
        self.assertEqual((report["kind"], report["num_classes"], report["unlabeled_images"]),
                         ("folder of images", 0, 24))
        self.assertEqual({size["width"]: size["images"] for size in report["most_common_sizes"]}, {48: 12, 32: 12})
        self.assertTrue(any(str(larger / "train") in note for note in report["notes"]), report["notes"])

    def test_files_that_are_no_images_are_counted(self):
        folder = self.copy_data()
        first = sorted(folder.iterdir())[0]
        (first / "readme.txt").write_text("mine")
        notes = self.inspect(folder)["notes"]
        self.assertEqual(len(notes), 1)
        self.assertIn(f"'{first.name}/readme.txt'", notes[0])

    def test_check_names_bad_and_damaged_images(self):
        folder = self.folder / "larger"
        kiln("demo-data", "--output-path", folder, "--images", 12, "--classes", 2, "--size", 256)
        folder = folder / "train"
        report = self.inspect(folder, "--check")
        self.assertEqual((report["bad_images"], report["damaged_images"], report["faults"]), (0, 0, []))
        bad, damaged = self.spoil(folder)
        report = self.inspect(folder, "--check", exit_code=1)
        self.assertEqual((report["bad_images"], report["damaged_images"], report["unreadable_headers"]), (2, 1, 2))
        faults = {fault["file"]: fault for fault in report["faults"]}
        self.assertEqual({name: fault["state"] for name, fault in faults.items()},
                         {bad[0]: "bad", bad[1]: "bad", damaged: "damaged"})
        self.assertIn("HTML", faults[bad[0]]["fault"])
        table = kiln("inspect", folder, "--check")
        self.assertEqual(table.returncode, 1)
        self.assert_names(table.stdout, *bad, damaged)
        self.assertEqual(kiln("inspect", folder).returncode, 0)
        for name in bad:
            (folder / name).unlink()
        self.inspect(folder, "--check")  # a damaged image is used, so it is told and no fault

    def test_model_directories(self):
        report = self.inspect(self.untrained)
        self.assertEqual((report["kind"], report["model"], report["parameters"], report["pretrained"]),
                         ("UntrainedModelDirectory", "resnet18", 11_689_512, False))
        self.assertNotIn("label_map", report)
        data = self.folder / "ten"
        kiln("demo-data", "--output-path", data, "--images", 40, "--classes", 10)
        result = self.train(train_data_path=data / "train", valid_data_path=data / "val")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = self.inspect(self.folder / "model")
        self.assertEqual((report["kind"], report["num_classes"], report["parameters"], report["mean"]),
                         ("ModelDirectory", 10, 11_181_642, [0.5, 0.5, 0.5]))
        self.assertEqual((report["seen_training_images"], report["seen_validation_images"]), (24, 10), "one step of 24 images")
        self.assert_holds_the_pixels_of_validation(report, keep_exact_size=True)
        names = sorted(path.name for path in (data / "train").iterdir())
        self.assertEqual([entry["label"] for entry in report["label_map"]], names)
        table = kiln("inspect", self.folder / "model").stdout
        self.assertRegex(table, r"model +resnet18\n")
        self.assertIn(names[9], table)

    def assert_holds_the_pixels_of_validation(self, report, keep_exact_size):
        """Of the trained model: what inspect shows, preprocessing.json and training.json agree."""
        pixels = json.loads((self.folder / "model/preprocessing.json").read_text())
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        self.assertEqual(pixels, {"version": 1, "exif": "apply", "resize_short_side": data["eval_resize_short_side"],
                                  "keep_exact_size": keep_exact_size, "input_size": data["eval_size"],
                                  "mean": data["normalization"]["mean"], "std": data["normalization"]["std"]})
        self.assertEqual({**report, **pixels}, {**report, "version": 1})

    def test_pixels_of_a_model(self):
        result = self.train(image_size=32, eval_resize=72, eval_crop=64, normalization="imagenet")
        self.assertEqual(result.returncode, 0, result.stderr)
        report = self.inspect(self.folder / "model")
        self.assertEqual((report["input_size"], report["resize_short_side"], report["keep_exact_size"]), ([64, 64], 72, False))
        self.assert_holds_the_pixels_of_validation(report, keep_exact_size=False)
        table = kiln("inspect", self.folder / "model").stdout
        self.assertRegex(table, r"\ninput size +64, 64\nresize short side +72\nkeep exact size +false\n")
        (self.folder / "model/preprocessing.json").unlink()  # as older versions wrote directories
        self.assertNotIn("input_size", self.inspect(self.folder / "model"))

    def test_files(self):
        state = torchvision_names(read_zip(self.untrained / "model"))
        path = self.folder / "weights"
        for write, kind in ((write_zip, "model file (torch zip)"), (write_safetensors, "model file (safetensors)"),
                            (write_legacy, "model file (torch, older plain pickle)")):
            with self.subTest(kind=kind):
                write(path, state)
                report = self.inspect(path)
                self.assertEqual((report["kind"], report["tensors"], report["elements"], report["parameters"]),
                                 (kind, 122, 11_699_132, 11_689_512))
                self.assertEqual(report["bytes"], path.stat().st_size)
        png = next((self.data / "train").rglob("*.png"))
        report = self.inspect(png)
        self.assertEqual((report["kind"], report["width"], report["state"]), ("PNG image", 32, "good"))
        path.write_bytes(png.read_bytes()[:100])
        self.assertEqual(self.inspect(path, exit_code=1)["state"], "bad")

    def test_hostile_model_files(self):
        whole = (self.untrained / "model").read_bytes()
        path = self.folder / "hostile"
        contents = [whole[:len(whole) * part // 2] for part in range(2)]
        contents += [b"\x80\x02cposix\nsystem\nX\x02\0\0\0ls\x85R.", struct.pack("<Q", 2**63) + b"{}",
                     struct.pack("<Q", 1 << 20) + b"{" * 1000, b"PK\x03\x04" + b"\xff" * 1000]
        for number, content in enumerate(contents):
            with self.subTest(number=number):
                path.write_bytes(content)
                self.assert_refused(kiln("inspect", path), 1, "hostile")
        folder = self.folder / "made"
        shutil.copytree(self.untrained, folder)
        (folder / "model").write_bytes(contents[1])
        self.assert_refused(kiln("inspect", folder, "--json"), 1, "made/model")

    def test_what_is_not_known(self):
        (self.folder / "notes").mkdir()
        self.assert_refused(kiln("inspect", self.folder / "notes"), 1, "notes", "empty")
        (self.folder / "notes/todo.doc").write_text("buy milk")
        self.assert_refused(kiln("inspect", self.folder / "notes"), 1, "notes", "no image")
        self.assert_refused(kiln("inspect", self.folder / "notes/todo.doc"), 1, "todo.doc",
                            "neither an image nor a model")
        (self.folder / "notes/_meta.yaml").write_text("type: TransformationDirectory\n")
        self.assert_refused(kiln("inspect", self.folder / "notes"), 1, "TransformationDirectory")
        self.assert_refused(kiln("inspect", self.folder / "nowhere"), 1, "nowhere", "No such file")
        self.assert_refused(kiln("inspect", "/dev/zero"), 1, "/dev/zero")
        (self.folder / "logs").mkdir()
        (self.folder / "logs/metrics.jsonl").touch()
        self.assert_refused(kiln("inspect", self.folder / "logs"), 1, "log folder")
        self.assert_refused(kiln("inspect"), 2, "--path")


if __name__ == "__main__":
    main()
