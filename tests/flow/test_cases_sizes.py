"""Reports of users of other trainers, and files from them, through the real program: sizes of images."""
import json
import os
import shutil

from flow import files_below, kiln, main
from forms import FormsTest


class Sizes(FormsTest):
    """An ImageDirectory in any form; which size the images of a run have, and what that takes."""

    def photos(self, count, width=264, height=40):
        return [f"P6 {width} {height} 255\n".encode() + bytes([number]) * (3 * width * height) for number in range(count)]

    def directory(self, photos, top=""):
        """The files of an ImageDirectory whose labels are not the images' folders, and which lists a part of them."""
        classes = ["image", "other"]
        schema = {"columnAttributes": [
            {"name": "image", "properties": {"image_ref": "image_info"}},
            {"name": "category", "properties": {"annotation_type": "COCO_classification",
                                                "categories": [{"id": i, "name": name} for i, name in enumerate(classes)]}}]}
        lines = [json.dumps({"image_info": {"file_name": f"image/{i}.ppm"}, "category": classes[(i + 1) % 2], "id": 10 * i})
                 for i in range(len(photos))]
        return [(top + name, content) for name, content in (
            ("_meta.yaml", b"type: ImageDirectory\nimage_list: the.lst\n"), ("_schema.json", json.dumps(schema).encode()),
            ("the.lst", "\n".join(lines).encode()), ("image/unlisted.ppm", photos[0]),
            *((f"image/{i}.ppm", photo) for i, photo in enumerate(photos)))]

    def coco(self, photos, top=""):
        """The files of a COCO folder."""
        text = json.dumps({"images": [{"id": i, "file_name": f"image/{i}.ppm"} for i in range(len(photos))],
                           "annotations": [{"image_id": i, "category_id": 1 + i % 2} for i in range(len(photos))],
                           "categories": [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]})
        return [(top + "labels.json", text.encode()), *((f"{top}image/{i}.ppm", photo) for i, photo in enumerate(photos))]

    def test_an_archive_is_read_by_its_list(self):
        """An ImageDirectory or COCO folder that lies in an archive, or in a folder of one, is read as its folder is, by every
        command that reads images."""
        for members in (self.directory, self.coco):
            photos = self.photos(4, 32, 32)
            expected, _ = self.labels(self.write_folder("unpacked", members(photos)))
            self.assertEqual([photo for photo, _ in expected], photos)
            self.assertEqual(len({label for _, label in expected}), 2)
            texts = files_below(self.folder / "out")
            for top in ("./", "some/folders/"):
                for path in list(self.forms(members(photos, top)))[1:]:
                    with self.subTest(path=path.name, top=top):
                        self.assertEqual(self.labels(path)[0], expected)
                        self.assertEqual(files_below(self.folder / "out"), texts)
            shutil.rmtree(self.folder / "unpacked")
        path = self.write_zip("missing.zip", self.directory(photos)[:-1])
        made = kiln("convert", path, self.folder / "out")
        self.assert_refused(made, 1, "the.lst", "'image/3.ppm'")
        self.write_zip("two/1.zip", self.directory(photos))
        self.write_zip("two/2.zip", self.directory(photos))
        self.assert_refused(kiln("convert", self.folder / "two", self.folder / "out"), 1, "ImageDirectory")

    def test_commands_read_an_archive_by_its_list(self):
        photos = self.photos(8, 32, 32)
        folder = self.write_folder("folder/photos", self.directory(photos))
        packed = self.write_zip("packed/photos.zip", self.directory(photos, "top/"))
        made = self.folder / "made"

        def answers(path, valid):
            shutil.rmtree(made, ignore_errors=True)
            result = self.train(train_data_path=path, valid_data_path=valid, batch_size=4, trained_model_path=made / "model")
            self.assertEqual(result.returncode, 0, result.stderr)
            parts = ("--tgt-train-path", made / "train", "--tgt-test-path", made / "test", "--fraction", 0.5)
            for words in (("split", "--src-path", path, *parts),
                          ("pack", path, made / "shards"), ("inspect", path),
                          ("score", "--trained-model-path", made / "model", "--data-path", path, "--output-path", made / "s.csv")):
                result = kiln(*words)
                self.assertEqual(result.returncode, 0, (words, result.stderr))
            return {name: content for name, content in files_below(made).items()
                    if name == "model/model.safetensors" or not name.startswith("model/")}

        one, other = answers(folder, folder), answers(packed, folder)
        self.assertEqual(one.keys(), other.keys())
        self.assertEqual([name for name in one if one[name] != other[name]], [])
        self.assertEqual(one["shards/source.txt"], b"ImageDirectory\n")

    def test_what_is_packed_of_an_image_directory_keeps_its_size(self):
        photos = self.photos(4)
        shards = []
        for kind in ("tar", "tfrecord"):
            packed = kiln("pack", self.write_zip("photos.zip", self.directory(photos)), self.folder / kind, "--format", kind)
            self.assertEqual(packed.returncode, 0, packed.stderr)
            shards.append(self.folder / kind)
        result = self.train(train_data_path=shards[0], valid_data_path=shards[1], batch_size=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads((self.folder / "model/training.json").read_text())["data"]["image_size"], [40, 264])

    def test_a_step_that_cannot_fit_is_refused(self):
        """hostile.md, M3: before the first step, with a batch or a size that fits. The memory of this machine decides which."""
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        side = int((4 * total / (24 * 2600)) ** 0.5)  # bytes for a pixel, densenet121
        folder = self.folder / "transformation"
        folder.mkdir()
        (folder / "_meta.yaml").write_text("type: TransformationDirectory\nextension: {}\ntransform_type: Image\n")
        (folder / "_transforms.json").write_text(json.dumps([["Resize", [side, side]]]))
        network = {"untrained_model_path": None, "model_name": "densenet121"}
        result = self.train(transform_path=folder, **network)
        self.assert_fails(result, 3, 138, f"24 images of {side} x {side} pixels", "--batch-size", "--transform-path that give")

    def test_a_model_takes_any_photo(self):
        """Photos of one size: an ImageDirectory keeps it, class folders only up to 256 pixels. The model takes photos of any
        other size, as stored or resized to cover its input."""
        def photo(path, width, height):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(f"P6 {width} {height} 255\n".encode() + os.urandom(3 * width * height))

        data, others = self.folder / "data", self.folder / "others"
        for number in range(4):
            photo(data / "ab"[number % 2] / f"{number}.ppm", 264, 40)
        for width, height in ((264, 40), (40, 264), (32, 32), (500, 357), (9, 300)):
            photo(others / f"{width}x{height}.ppm", width, height)
        converted = kiln("convert", data, self.folder / "directory")
        self.assertEqual(converted.returncode, 0, converted.stderr)
        for path, size in ((data, [224, 224]), (self.folder / "directory", [40, 264])):
            result = self.train(train_data_path=path, valid_data_path=path, batch_size=2)
            self.assertEqual(result.returncode, 0, result.stderr)
            trained = json.loads((self.folder / "model/training.json").read_text())
            self.assertEqual(trained["data"]["image_size"], size)
            self.assertEqual(trained["data"]["resize_short_side"], 256 if path == data else None)
            scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", others)
            self.assertEqual(scored.returncode, 0, scored.stderr)
            self.assertNotIn("bad image", scored.stdout + scored.stderr)
            self.assertIn("Scored 5 images", scored.stdout + scored.stderr)


if __name__ == "__main__":
    main()
