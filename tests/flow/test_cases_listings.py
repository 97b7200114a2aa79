"""Reports of users of other trainers, and files from them, through the real program: what a folder of images lists."""
import json
import os
import shutil
import tarfile

from flow import FlowTest, another_libheif, files_below, kiln, main


class Listings(FlowTest):
    """What is listed, what is left out, and what an index may be trusted with."""
    HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40)
    SECRET = b"root:x:0:0:secret words of mine\n"
    MARK = b"\xef\xbb\xbf"

    def setUp(self):
        super().setUp()
        self.enterContext(another_libheif())  # or else a HEIC is read

    def done(self, *arguments):
        """What a command said that succeeded."""
        result = kiln(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def refused(self, *arguments):
        result = kiln(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stderr

    def spoil(self, data):
        """New, moved and overwritten images; photos that Kiln does not read; a name that is not UTF-8; a link to a secret."""
        first, second, third = sorted(data.iterdir())
        images = sorted(first.iterdir())
        suffix = images[0].suffix
        images[0].rename(second / ("moved" + suffix))
        shutil.copyfile(sorted(second.iterdir())[0], images[1])
        shutil.copy(images[2], os.fsdecode(os.fsencode(third) + b"/caf\xe9" + os.fsencode(images[2].suffix)))
        (third / "IMG_1.HEIC").write_bytes(self.HEIC)
        (data / "anim.gif").write_bytes(b"GIF89a")
        (self.folder / "secret").write_bytes(self.SECRET)
        (first / "link.jpg").symlink_to(self.folder / "secret")

    def test_data_that_change(self):
        """Cases 31, 32, and a telephone's photos. Folder times stand still, as on mounts of object stores: what is new, moved or
        overwritten is seen. Every command names what it leaves out, and copies only images."""
        data, made = self.copy_data(), self.folder / "made"
        made.mkdir()

        def trained():
            for path in (data, *data.rglob("*")):
                os.utime(path, (0, 0))
            return self.done(*self.train_arguments(
                train_data_path=data, batch_size=24, max_bad_images=5,
                trained_model_path=made / "model", log_path=made / "logs"))

        def num_images():
            counts = json.loads((made / "model/training.json").read_text())["data"]["counts"]
            return sum(count["train"] for count in counts.values())

        trained()
        self.assertEqual(num_images(), 48)
        self.spoil(data)
        model = ("--trained-model-path", made / "model", "--data-path", data)
        all_said = [trained(), self.done("score", *model, "--output-path", made / "scores.jsonl"),
                    self.done("convert", data, made / "converted"), self.done("pack", data, made / "packed"),
                    kiln("inspect", data, "--check").stdout]
        self.assertEqual(num_images(), 50)
        for said in all_said:
            self.assert_names(said, "IMG_1.HEIC", "heif-convert", "anim.gif", "link.jpg")
            self.assertNotIn("missing", said)
            self.assertNotIn("root:x", said)
        self.assertEqual((made / "scores.jsonl").read_text(encoding="utf-8").count("caf\\\\xe9"), 1)
        for name, contents in files_below(made).items():
            self.assertNotIn(b"root:x", contents, name)
            self.assertNotIn(b"cm9vdDp4", contents, name)  # in base64
        (self.folder / "files").write_bytes(self.MARK + b"anim.gif\n")  # case 45
        self.assertIn("anim.gif", self.refused("score", *model, "--files-from", self.folder / "files"))
        (self.folder / "deep").mkdir()
        data.rename(self.folder / "deep/data")
        self.assertIn("caf\\xe9", self.refused("convert", self.folder / "deep", self.folder / "unlabeled"))

    def test_photos_alone(self):
        photos = self.folder / "alone/photos"
        photos.mkdir(parents=True)
        for number in range(3):
            (photos / f"{number}.heic").write_bytes(self.HEIC)
        with tarfile.open(self.folder / "alone.tar", "w") as tar:
            tar.add(photos, "photos")
        for source in (photos.parent, self.folder / "alone.tar", photos / "0.heic"):
            self.assertIn("HEIC", self.refused("inspect", source))

    def test_unicode_forms_of_a_class(self):
        """Case 16: two names that look alike are told apart. Case 45: the settings begin with a byte-order mark."""
        train, valid = self.copy_data(), self.copy_data("val")
        name = sorted(train.iterdir())[0].name
        (train / name).rename(train / "caf\u00e9")
        (valid / name).rename(valid / "cafe\u0301")
        (self.folder / "settings").write_bytes(self.MARK + f"train-data-path: {train}\nvalid-data-path: {valid}\n".encode())
        said = self.refused(*self.train_arguments(train_data_path=None, valid_data_path=None), "--config",
                            self.folder / "settings")
        self.assert_names(said, "'cafe\\u0301'", "'caf\\u00e9'")
        shutil.copytree(valid / "cafe\u0301", train / "cafe\u0301")
        self.assert_names(self.done("inspect", train), "'cafe\\u0301'", "'caf\\u00e9'")

    def test_files_without_a_size(self):
        """The kernel's own files say 0 bytes, and are read to their end."""
        self.assertIn("/proc/self/environ", self.refused("train", "--config", "/proc/self/environ"))


if __name__ == "__main__":
    main()
