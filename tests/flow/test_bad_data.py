"""Data sets that are not what they should be: one clear sentence, the right exit code, nothing half-written.

A run or two for each code; the many faults of folders, lists, schemas and COCO files are in tests/data/dataset/."""
import json
import shutil
import struct
import zlib

from flow import FlowTest, kiln, main


def huge_png():
    """A valid header that promises 30000x30000 pixels."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 30000, 30000, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))


def cut(path, share):
    """Leaves the header of a JPEG and this share of its pixel data."""
    data = path.read_bytes()
    scan = data.index(b"\xff\xda")
    path.write_bytes(data[:scan + 14 + int((len(data) - scan - 14) * share)])


def class_folders(root):
    return sorted(path for path in root.iterdir() if path.is_dir())


class FolderTest(FlowTest):
    def test_missing_and_unlabeled_directories(self):
        self.assert_fails(self.train(valid_data_path=self.folder / "nowhere"), 1, 18, "Validation dataset", "nowhere")
        self.assert_fails(self.train(train_data_path=self.data), 1, 24, self.data)

    def test_classes_without_images(self):
        """Of training one, of validation another."""
        made, valid = self.image_directory(), self.copy_data("val")
        shutil.rmtree(class_folders(valid)[0])
        schema = json.loads((made / "_schema.json").read_text())
        for column in schema["columnAttributes"]:
            if "categories" in column.get("properties", {}):
                column["properties"]["categories"].append({"id": 3, "name": "zebra"})
        (made / "_schema.json").write_text(json.dumps(schema))
        result = self.train(train_data_path=made, valid_data_path=valid)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3,zebra", (self.folder / "model/index_to_label.csv").read_text())
        counts = json.loads((self.folder / "model/training.json").read_text())["data"]["counts"]
        self.assertEqual([count["valid"] for count in counts.values()], [0, 4, 4, 0])

    def test_what_may_not_be_read(self):
        for spoil, words in [(lambda data: data, ["Training dataset"]),
                             (lambda data: class_folders(data)[1], [class_folders(self.data / "train")[1].name]),
                             (lambda data: next(data.rglob("*.png")), ["bad images", ".png"])]:
            with self.subTest(words=words):
                train = self.copy_data()
                closed = spoil(train)
                closed.chmod(0)
                try:
                    result = self.train_bound_by_permissions(train_data_path=train, max_bad_images=0)
                finally:
                    closed.chmod(0o755)
                    shutil.rmtree(train)
                self.assert_fails(result, 1, 18, "Permission denied", *words)

    def test_a_folder_that_may_be_listed_but_not_entered(self):
        train = self.copy_data()
        train.chmod(0o444)
        self.addCleanup(train.chmod, 0o755)
        self.assert_fails(self.train_bound_by_permissions(train_data_path=train), 1, 18, "Permission denied", train)

    def test_one_class_trains_with_a_warning(self):
        only = self.folder / "one"
        shutil.copytree(next((self.data / "train").iterdir()), only / "shape")
        result = self.train(train_data_path=only, valid_data_path=only, batch_size=16)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.training()["data"]["classes"], ["shape"])

    def test_names_with_spaces_accents_and_links(self):
        train = self.copy_data()
        classes = class_folders(train)
        first = sorted(classes[0].iterdir())[0]
        first.rename(first.with_name("ein schönes Bild" + first.suffix))
        elsewhere = self.folder / "elsewhere"
        classes[1].rename(elsewhere)
        classes[1].symlink_to(elsewhere)
        image = sorted(classes[2].iterdir())[0]
        image.rename(self.folder / image.name)
        image.symlink_to(self.folder / image.name)
        result = self.train(train_data_path=train)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sum(count["train"] for count in self.training()["data"]["counts"].values()), 48)

    def test_mixed_sizes_are_resized(self):
        other = self.folder / "larger"
        kiln("demo-data", "--output-path", other, "--images", 12, "--classes", 3, "--size", 48)
        result = self.train(valid_data_path=other / "val", image_size=24)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        self.assertEqual((data["image_size"], data["eval_size"]), ([24, 24], [24, 24]))

    def test_batches_that_cannot_be(self):
        self.assert_fails(self.train(batch_size=49), 1, 7, "Batch size", "--batch-size 48")


class BadImageTest(FlowTest):
    def test_bad_images_stop_a_small_set_and_can_be_allowed(self):
        train = self.copy_data()
        bad = {"cut.jpg": b"\xff\xd8\xff\xe0\0", "empty.png": b"", "page.jpg": b"<!DOCTYPE html>", "huge.png": huge_png()}
        for name, content in bad.items():
            (class_folders(train)[0] / name).write_bytes(content)
        options = {"train_data_path": train, "batch_size": 4}
        self.assert_fails(self.train(**options), 1, 18, "--max-bad-images")
        self.assert_fails(self.train(max_bad_images=4, on_bad_image="fail", **options), 1, 18, class_folders(train)[0].name)
        allowed = self.train(max_bad_images=4, **options)
        self.assertEqual(allowed.returncode, 0, allowed.stderr)
        faults = json.loads((self.folder / "model/training.json").read_text())["image_faults"]
        self.assertEqual({fault["file"].split("/")[-1]: fault["used"] for fault in faults}, {name: False for name in bad})

    def test_bad_validation_images_stop_too(self):
        valid = self.copy_data("val")
        bad = [path for folder in class_folders(valid) for path in sorted(folder.iterdir())[:2]]
        for path in bad:
            path.write_bytes(b"no image")
        self.assert_fails(self.train(valid_data_path=valid, image_size=32), 1, 18, "Validation dataset", "bad images",
                          *[path.relative_to(valid) for path in bad], f"That is {len(bad)} of 12 images")

    def test_a_set_of_bad_images_alone(self):
        data = self.copy_data("val")
        for image in data.rglob("*.*"):
            image.write_bytes(b"no image")
        result = self.train(valid_data_path=data, image_size=32, max_bad_images="100%")
        self.assert_fails(result, 1, 18, "Validation dataset")

    def test_truncated_jpegs_are_damaged_or_bad(self):
        data = self.folder / "larger"
        kiln("demo-data", "--output-path", data, "--images", 30, "--classes", 3, "--size", 96)
        damaged, bad = sorted((data / "train").rglob("*.jpg"))[:2]
        cut(damaged, 0.8)
        options = {"train_data_path": data / "train", "valid_data_path": data / "val"}
        result = self.train(**options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, f"damaged training image '[a-z]+/{damaged.name}': JPEG data ends early: "
                                        r"\d+ of 96 rows missing \(used as far as it can be decoded\)")
        faults = json.loads((self.folder / "model/training.json").read_text())["image_faults"]
        self.assertEqual([(fault["data_set"], fault["used"]) for fault in faults], [("training", True)])
        self.assertTrue(faults[0]["file"].endswith(damaged.name))
        shutil.rmtree(self.folder / "model")
        cut(bad, 0.15)
        self.assert_fails(self.train(**options, max_bad_images=0), 1, 18, bad.name, "of 96 rows missing")


class ListTest(FlowTest):
    def test_a_hostile_list(self):
        made = self.image_directory()
        lines = (made / "images.lst").read_text().splitlines()
        fault = json.dumps({**json.loads(lines[0]), "id": 1000, "image_info": {"file_name": "../secret.png"}})
        (made / "images.lst").write_text("\n".join(lines[:3] + [fault] + lines[3:]) + "\n")
        self.assert_fails(self.train(train_data_path=made), 1, 18, "images.lst, line 4", "'..'")

    def test_a_list_that_may_not_be_read(self):
        made = self.image_directory()
        (made / "images.lst").chmod(0)
        result = self.train_bound_by_permissions(train_data_path=made)
        self.assert_fails(result, 1, 18, "images.lst", "Permission denied")


if __name__ == "__main__":
    main()
