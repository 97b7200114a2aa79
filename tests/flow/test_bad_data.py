"""Data sets that are not what they should be: one clear sentence, the right exit code, nothing half-written."""
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
    def test_missing_empty_and_unlabeled_directories(self):
        self.assert_fails(self.train(train_data_path=self.folder / "nowhere"), 1, 18, "nowhere", "does not exist")
        (self.folder / "empty").mkdir()
        self.assert_fails(self.train(valid_data_path=self.folder / "empty"), 1, 18, "Validation dataset", "is empty")
        flat = self.folder / "flat"
        flat.mkdir()
        for number, image in enumerate(sorted((self.data / "train").rglob("*.png"))[:3]):
            shutil.copy(image, flat / f"{number}.png")
        self.assert_fails(self.train(train_data_path=flat), 1, 24, "flat", "no labels")

    def test_class_folders_without_images(self):
        bare = self.folder / "bare"
        for name in ("cat", "dog"):
            (bare / name).mkdir(parents=True)
            (bare / name / "readme.txt").write_text("to come")
        self.assert_fails(self.train(train_data_path=bare), 1, 18, "bare", "it contains no images", ".jpg")

    def test_a_class_without_images(self):
        train = self.copy_data()
        (train / "zebra").mkdir()
        result = self.train(train_data_path=train)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 folder without images is not a class: 'zebra'", result.stdout)

        made = self.image_directory()
        schema = json.loads((made / "_schema.json").read_text())
        for column in schema["columnAttributes"]:
            if "categories" in column.get("properties", {}):
                column["properties"]["categories"].append({"id": 3, "name": "zebra"})
        (made / "_schema.json").write_text(json.dumps(schema))
        result = self.train(train_data_path=made)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no training images for class 'zebra'", result.stdout)
        self.assertIn("3,zebra", (self.folder / "model/index_to_label.csv").read_text())

    def test_wrong_kinds_of_directory(self):
        self.assert_fails(self.train(train_data_path=self.untrained), 1, 18, self.untrained, "'ModelDirectory'")
        image = next((self.data / "train").rglob("*.png"))
        self.assert_fails(self.train(valid_data_path=image), 1, 18, "Validation dataset", "is a file")
        self.assert_fails(self.train(train_data_path=self.data), 1, 24, "more than one folder deep")

    def test_what_may_not_be_read(self):
        for spoil, words in [(lambda data: data, ["Training dataset"]),
                             (lambda data: class_folders(data)[1], [class_folders(self.data / "train")[1].name]),
                             (lambda data: next(data.rglob("*.png")), ["bad images", ".png"])]:
            with self.subTest(words=words):
                train = self.copy_data()
                closed = spoil(train)
                closed.chmod(0)
                try:
                    result = self.train_bound_by_permissions(train_data_path=train)
                finally:
                    closed.chmod(0o755)
                    shutil.rmtree(train)
                self.assert_fails(result, 1, 18, "Permission denied", *words)

    def test_a_folder_that_may_be_listed_but_not_entered(self):
        train = self.copy_data()
        train.chmod(0o444)
        self.addCleanup(train.chmod, 0o755)
        self.assert_fails(self.train_bound_by_permissions(train_data_path=train), 1, 18, "Permission denied", train)

    def test_validation_class_that_training_lacks(self):
        valid = self.copy_data("val")
        class_folders(valid)[0].rename(valid / "zebra")
        self.assert_fails(self.train(valid_data_path=valid), 1, 18, "'zebra'", "not in the training dataset")

    def test_fewer_classes_in_validation_are_mapped_by_name(self):
        valid = self.copy_data("val")
        shutil.rmtree(class_folders(valid)[0])
        self.assertEqual(self.train(valid_data_path=valid).returncode, 0)
        counts = json.loads((self.folder / "model/training.json").read_text())["data"]["counts"]
        self.assertEqual([count["valid"] for count in counts.values()], [0, 4, 4])

    def test_one_class_trains_with_a_warning(self):
        only = self.folder / "one"
        shutil.copytree(next((self.data / "train").iterdir()), only / "shape")
        result = self.train(train_data_path=only, valid_data_path=only)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("only one class", result.stdout)

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
        self.assertIn("48 images, 3 classes", result.stdout)

    def test_loops_of_links_are_named_and_left_out(self):
        train = self.copy_data()
        inside = class_folders(train)[0]
        (train / "back").symlink_to(train)
        (train / "self").symlink_to(train / "self")
        (inside / "up").symlink_to("..")
        (inside / "gone.png").symlink_to(self.folder / "nowhere.png")
        result = self.train(train_data_path=train)
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("'back'", "'self'", f"'{inside.name}/up'", f"'{inside.name}/gone.png'"):
            self.assertIn(name, result.stdout)
        self.assertIn("48 images, 3 classes", result.stdout)
        (self.folder / "model/_meta.yaml").unlink()
        circle = self.folder / "circle"
        circle.mkdir()
        (circle / "a").symlink_to(circle / "b")
        (circle / "b").symlink_to(circle / "a")
        self.assert_fails(self.train(train_data_path=circle), 1, 18, "circular", "'a', 'b'")

    def test_mixed_sizes_become_224(self):
        other = self.folder / "larger"
        kiln("demo-data", "--output-path", other, "--images", 12, "--classes", 3, "--size", 48)
        result = self.train(valid_data_path=other / "val", batch_size=16)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("224x224", result.stdout)

    def test_batch_larger_than_the_set(self):
        self.assert_fails(self.train(batch_size=49), 1, 7, "Batch size", "--batch-size 48")

    def test_batch_of_one_on_one_pixel_maps(self):
        self.assert_fails(self.train(batch_size=1), 1, 5, "Batch size")


class BadImageTest(FlowTest):
    def test_one_bad_image_is_allowed_unless_none_is(self):
        for name, content in [("cut.jpg", b"\xff\xd8\xff\xe0\0"), ("empty.png", b""), ("page.jpg", b"<!DOCTYPE html>"),
                              ("huge.png", huge_png())]:
            with self.subTest(name=name):
                train = self.copy_data()
                folder = next(path for path in train.iterdir() if path.is_dir())
                (folder / name).write_bytes(content)
                result = self.train(train_data_path=train, image_size=32, max_bad_images=0)
                self.assert_fails(result, 1, 18, name, "--max-bad-images allows 0")
                allowed = self.train(train_data_path=train, image_size=32)
                self.assertEqual(allowed.returncode, 0, allowed.stderr)
                self.assertIn(name, allowed.stdout)
                self.assertIn("bad images        1 training", allowed.stdout)
                strict = self.train(train_data_path=train, image_size=32, max_bad_images=1, on_bad_image="fail",
                                    trained_model_path=self.folder / "other")
                self.assertEqual(strict.returncode, 1)
                shutil.rmtree(train)
                shutil.rmtree(self.folder / "model")

    def test_the_share_of_bad_images_is_rounded_down(self):
        train = self.copy_data()
        for folder in class_folders(train):
            for image in list(folder.iterdir()):
                for number in range(4 if image.stem < "0002" else 3):
                    shutil.copy(image, folder / f"more-{number}-{image.name}")
                image.unlink()
        images = sorted(train.rglob("*.png"))
        self.assertEqual(len(list(train.rglob("*.*"))), 150)
        images[0].write_bytes(b"no image")
        result = self.train(train_data_path=train, batch_size=50)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bad images        1 training", result.stdout)
        shutil.rmtree(self.folder / "model")
        images[-1].write_bytes(b"no image")
        result = self.train(train_data_path=train, batch_size=50)
        self.assert_fails(result, 1, 18, images[0].name, images[-1].name, "2 of 150 images", "allows 1:")
        self.assertEqual(self.train(train_data_path=train, batch_size=50, max_bad_images="1.34%").returncode, 0)

    def test_bad_validation_images_stop_too(self):
        valid = self.copy_data("val")
        bad = [next(path for path in folder.iterdir()) for folder in class_folders(valid)]
        for path in bad:
            path.write_bytes(b"no image")
        self.assert_fails(self.train(valid_data_path=valid, image_size=32), 1, 18, "Validation dataset", "bad images",
                          *[path.relative_to(valid) for path in bad], f"That is {len(bad)} of 12 images")

    def test_a_set_of_bad_images_alone(self):
        for part in ("train", "val"):
            with self.subTest(part=part):
                data = self.copy_data(part)
                for image in data.rglob("*.*"):
                    image.write_bytes(b"no image")
                paths = {"train_data_path" if part == "train" else "valid_data_path": data}
                result = self.train(**paths, image_size=32, max_bad_images="100%")
                self.assert_fails(result, 1, 18, "Training" if part == "train" else "Validation", "none of its images")

    def test_truncated_jpegs_are_damaged_or_bad(self):
        data = self.folder / "larger"
        kiln("demo-data", "--output-path", data, "--images", 60, "--classes", 3, "--size", 96)
        damaged, bad = sorted((data / "train").rglob("*.jpg"))[:2]
        cut(damaged, 0.8)
        options = {"train_data_path": data / "train", "valid_data_path": data / "val"}
        result = self.train(**options)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, f"damaged training image '[a-z]+/{damaged.name}': JPEG data ends early: "
                                        r"\d+ of 96 rows missing \(used as far as it can be decoded\)")
        self.assertIn("bad images        0 training, 0 validation; damaged but used: 1, 0", result.stdout)
        faults = json.loads((self.folder / "model/training.json").read_text())["image_faults"]
        self.assertEqual([(fault["data_set"], fault["used"]) for fault in faults], [("training", True)])
        self.assertTrue(faults[0]["file"].endswith(damaged.name))
        shutil.rmtree(self.folder / "model")
        cut(bad, 0.15)
        self.assert_fails(self.train(**options, max_bad_images=0), 1, 18, bad.name, "of 96 rows missing", "1 of 48 images")


class ListTest(FlowTest):
    def assert_list_is_refused(self, lines, fault, *words):
        (self.made / "images.lst").write_text("\n".join(lines[:3] + [fault] + lines[3:]) + "\n")
        self.assert_fails(self.train(train_data_path=self.made), 1, 18, "images.lst, line 4", *words)

    def test_hostile_list(self):
        self.made = self.image_directory()
        lines = (self.made / "images.lst").read_text().splitlines()
        good = json.loads(lines[0])

        def changed(**values):
            return json.dumps({**good, "id": 1000, **values})

        def path(name):
            return changed(image_info={**good["image_info"], "file_name": name})
        for fault, words in [
                (path("../secret.png"), "'..'"), (path("a/../../secret.png"), "'..'"), (path("/etc/passwd"), "absolute"),
                (path("a\0b.png"), "zero byte"), (path("_schema.json"), "a metadata file of the directory"),
                (path(7), '"file_name" is'), (path(None), 'no "file_name"'), (path(""), "is empty"), (path("a" * 5000), "4096"),
                (changed(image_info=[]), '"image_info" is'), (changed(category=7), '"category" is'),
                (changed(category="zebra"), "'zebra'"), (changed(id="x"), '"id" is'), (changed(id=1.5), '"id" is'),
                (changed(image_info={**good["image_info"], "width": "a", "height": 2}), '"width"'),
                (changed(image_info={**good["image_info"], "width": -1, "height": 2}), '"width"'),
                (lines[0], "already that of line 1"), ("not json", "not valid JSON"), ("[1, 2]", "instead of an object"),
                (lines[0][:20], "not valid JSON"), ("[" * 100000, "deep")]:
            with self.subTest(fault=fault[:60]):
                self.assert_list_is_refused(lines, fault, words)

    def test_a_line_of_100_megabytes(self):
        self.made = self.image_directory()
        lines = (self.made / "images.lst").read_text().splitlines()
        self.assert_list_is_refused(lines, '{"image_info": "' + "a" * (100 << 20), "more than the limit of 1 MiB")

    def test_listed_files_that_are_missing_or_folders(self):
        made = self.image_directory()
        line = (made / "images.lst").read_text().splitlines()[5]
        image = made / json.loads(line)["image_info"]["file_name"]
        image.unlink()
        self.assert_fails(self.train(train_data_path=made), 1, 18, image.name, "is missing (line 6)")
        image.mkdir()
        self.assert_fails(self.train(train_data_path=made), 1, 18, image.name, "is not a file (line 6)")

    def test_empty_and_missing_lists(self):
        made = self.image_directory()
        (made / "images.lst").write_text("")
        self.assert_fails(self.train(train_data_path=made), 1, 18, "its list is empty")
        (made / "images.lst").unlink()
        self.assert_fails(self.train(train_data_path=made), 1, 18, "images.lst cannot be read")

    def test_broken_schemas(self):
        made = self.image_directory()
        schema = (made / "_schema.json").read_text()
        for text, word in [("", "not valid JSON"), (schema[:-20], "not valid JSON"), ("[]", "columnAttributes"),
                           ('{"columnAttributes": []}', "no column of images"),
                           (schema.replace('"id": 1,', '"id": 0,'), "twice"), (schema.replace('"id": 1,', '"id": -1,'), "-1"),
                           (schema.replace('"id": 1,', '"id": 10000000000,'), "10000000000"),
                           (schema.replace('"id": 1,', '"id": "1",'), "instead of an integer"),
                           (schema.replace("COCO_classification", "COCO_detection"), "COCO_detection")]:
            with self.subTest(word=word):
                (made / "_schema.json").write_text(text)
                self.assert_fails(self.train(train_data_path=made), 1, 18, "_schema.json", word)
        (made / "_schema.json").unlink()
        self.assert_fails(self.train(train_data_path=made), 1, 18, "_schema.json cannot be read")

    def test_meta_as_json_works_and_a_broken_one_is_refused(self):
        made = self.image_directory()
        (made / "_meta.yaml").write_text(json.dumps(
            {"type": "ImageDirectory", "extension": {}, "image_list": "images.lst", "samples": "_samples.json",
             "schema": "_schema.json"}, indent=2))
        self.assertEqual(self.train(train_data_path=made).returncode, 0)
        shutil.rmtree(self.folder / "model")
        for text, word in [("", "is empty"), ('{"type": ', "not valid JSON"), ("type: [", "not valid YAML"),
                           ("type: ImageDirectory\nimage_list: ../other.lst\n", "'..'"), ("type: DataFrameDirectory\n",
                                                                                    "'DataFrameDirectory'")]:
            with self.subTest(text=text):
                (made / "_meta.yaml").write_text(text)
                self.assert_fails(self.train(train_data_path=made), 1, 18, "_meta.yaml", word)

    def test_a_list_that_may_not_be_read(self):
        made = self.image_directory()
        (made / "images.lst").chmod(0)
        result = self.train_bound_by_permissions(train_data_path=made)
        self.assert_fails(result, 1, 18, "images.lst cannot be read", "Permission denied")

    def test_coco_folders_with_faults(self):
        coco = self.write_coco()
        whole = json.loads((coco / "labels.json").read_text())
        for change, word in [({"categories": []}, "categories"),
                             ({"annotations": [{"image_id": 1000, "category_id": 0}]}, "no image has the id 1000"),
                             ({"images": whole["images"] + [{"id": 99, "file_name": "../x.png"}]}, "'..'"),
                             ({"images": whole["images"] + [{"id": 99, "file_name": "x.png"}]}, "'x.png' is missing"),
                             ({"images": whole["images"] + whole["images"][:1]}, "appears twice")]:
            with self.subTest(word=word):
                (coco / "labels.json").write_text(json.dumps({**whole, **change}))
                self.assert_fails(self.train(train_data_path=coco), 1, 18, "labels.json", word)

    def test_a_broken_coco_file_is_named_where_labels_are_missing(self):
        flat = self.folder / "flat"
        flat.mkdir()
        for number, image in enumerate(sorted((self.data / "train").rglob("*.png"))[:3]):
            shutil.copy(image, flat / f"{number}.png")
        (flat / "labels.json").write_text('{"images": [')
        self.assert_fails(self.train(train_data_path=flat), 1, 24, "'labels.json' is ignored")


if __name__ == "__main__":
    main()
