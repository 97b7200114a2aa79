"""Reports of users of other trainers, and files from them, through the real program: each case is made here, and what is right is
compared. A class is a family of cases."""
import json
import os
import shutil
import subprocess
import tarfile

from flow import KILN, FlowTest, files_below, kiln, main
from jobs import ENVIRONMENT


class Archives(FlowTest):
    """What lies in an archive or a shard is read as the folder that unpacking would give."""


class Listings(FlowTest):
    """What is listed, what is left out, and what an index may be trusted with."""
    HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(40)
    SECRET = b"root:x:0:0:secret words of mine\n"
    MARK = b"\xef\xbb\xbf"

    def done(self, *arguments):
        """What a command said that succeeded."""
        result = kiln(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def refused(self, *arguments):
        result = kiln(*arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stderr

    def pack_tar(self, folder, name="set.tar"):
        with tarfile.open(self.folder / name, "w") as tar:
            tar.add(folder, folder.name)
        return self.folder / name

    def test_folder_times_that_stand_still(self):
        """Case 32: mounts of object stores. What is new, moved or overwritten is seen."""
        data = self.copy_data()
        folders = sorted(data.iterdir())
        first, second = sorted(folders[0].iterdir())[:2]

        def trained():
            for path in (data, *data.rglob("*")):
                os.utime(path, (0, 0))
            return self.done(*self.train_arguments(train_data_path=data, index=self.folder / "ix", batch_size=12))

        self.assertIn("48 images", trained())
        self.assertTrue((self.folder / "ix").exists())
        shutil.copy(first, folders[1] / ("new" + first.suffix))
        self.assertIn("49 images", trained())
        first.rename(folders[1] / ("moved" + first.suffix))
        shutil.copyfile(sorted(folders[2].iterdir())[0], second)
        said = trained()
        self.assertIn("49 images", said)
        self.assertIn("is out of date", said)
        self.assertNotIn("missing", said)

    def test_byte_order_marks(self):
        """Case 45: Windows editors. The mark is no part of the first word, in any text file."""
        folders = sorted((self.data / "train").iterdir())
        names = [folder.name for folder in folders]
        image = sorted(folders[0].iterdir())[0]
        config = self.folder / "config.yaml"
        config.write_bytes(self.MARK + f"untrained-model-path: {self.untrained}\n".encode())
        self.done(*self.train_arguments(untrained_model_path=None), "--config", config)
        (self.folder / "files").write_bytes(self.MARK + str(image).encode() + b"\n")
        said = self.done("score", "--trained-model-path", self.folder / "model", "--files-from", self.folder / "files", "--output-path",
                         self.folder / "scores.csv")
        self.assertNotIn("missing", said)
        self.assertIn("Scored 1 image", said)
        (self.folder / "classes").write_bytes(self.MARK + "\r\n".join(names).encode())
        self.done("inspect", self.data / "train", "--classes", self.folder / "classes")
        listed = self.image_directory()
        for name in ("images.lst", "_schema.json", "_meta.yaml"):
            (listed / name).write_bytes(self.MARK + (listed / name).read_bytes())
        coco = self.write_coco()
        (coco / "labels.json").write_bytes(self.MARK + (coco / "labels.json").read_bytes())
        shards = self.folder / "shards"
        shards.mkdir()
        with tarfile.open(shards / "a.tar", "w") as tar:
            for number, folder in enumerate(folders):
                label = self.folder / "label"
                label.write_bytes(self.MARK + str(number).encode())
                tar.add(label, f"{number}.cls")
                tar.add(sorted(folder.iterdir())[0], f"{number}{image.suffix}")
        (shards / "classes.txt").write_bytes(self.MARK + "\n".join(names).encode())
        for data in (listed, coco, shards):
            report = json.loads(kiln("inspect", data, "--json").stdout)
            self.assertEqual([row["name"] for row in report["classes"]], names, data)

    def test_names_that_are_not_utf8(self):
        """Case 31: old archives. Every command takes them."""
        data = self.copy_data("val")
        image = sorted(path for path in data.rglob("*") if path.is_file())[0]
        image.rename(os.fsdecode(os.fsencode(image.parent) + b"/caf\xe9" + os.fsencode(image.suffix)))
        self.done(*self.train_arguments(valid_data_path=data))
        scores = self.folder / "scores.jsonl"
        use = ("--trained-model-path", self.folder / "model", "--data-path")
        self.done("score", *use, data, "--output-path", scores)
        self.assertEqual(scores.read_text(encoding="utf-8").count("caf\\\\xe9"), 1)
        self.done("evaluate", *use, data, "--output-path", self.folder / "evaluation")
        self.done("score", *use, self.pack_tar(data), "--output-path", self.folder / "more.jsonl")
        flat = self.folder / "flat/deep"
        shutil.copytree(image.parent, flat / "er")
        self.assertIn("caf\\xe9", self.refused("convert", self.folder / "flat", self.folder / "made"))

    def test_unicode_forms_of_a_class(self):
        """Case 16: two names that look alike are told apart."""
        train, valid = self.copy_data(), self.copy_data("val")
        folders = sorted(train.iterdir())
        folders[0].rename(train / "caf\u00e9")
        (valid / folders[0].name).rename(valid / "cafe\u0301")
        said = self.refused(*self.train_arguments(train_data_path=train, valid_data_path=valid))
        hint = "'cafe\\u0301' (the same name as 'caf\\u00e9' in another Unicode form: rename one)"
        self.assertIn(hint, said)
        (self.folder / "classes").write_text("\n".join(["caf\u00e9", *(folder.name for folder in folders[1:])]))
        self.assertIn(hint, self.refused("inspect", valid, "--classes", self.folder / "classes"))
        shutil.copytree(valid / "cafe\u0301", train / "cafe\u0301")
        self.assertIn("two classes look alike: ", self.done("inspect", train))

    def test_photos_that_are_not_read(self):
        """A telephone's photos are named with what to do, by every command and in every form."""
        data = self.copy_data("val")
        folder = sorted(data.iterdir())[0]
        (folder / "IMG_1.HEIC").write_bytes(self.HEIC)
        (folder / "anim.gif").write_bytes(b"GIF89a")
        (data / "clip.MOV").write_bytes(b"")
        heic = f"1 file is a HEIC photo, which Kiln does not read; convert it with `heif-convert`, or set the camera to JPEG: "
        made = self.folder / "made"
        made.mkdir()
        use = ("--trained-model-path", self.folder / "model", "--data-path")
        for command in (self.train_arguments(valid_data_path=data), ("inspect", data), ("inspect", self.pack_tar(data)),
                        ("score", *use, data, "--output-path", made / "s.csv"),
                        ("score", *use, self.pack_tar(data), "--output-path", made / "t.csv"),
                        ("evaluate", *use, data, "--output-path", made / "e"), ("convert", data, made / "c"),
                        ("pack", data, made / "p")):
            said = self.done(*command)
            self.assertIn(heic, said, command)
            self.assertIn("a GIF image, which Kiln does not read", said, command)
            self.assertIn("a video, which Kiln does not read", said, command)
        alone = self.folder / "alone/photos"
        alone.mkdir(parents=True)
        for number in range(3):
            (alone / f"{number}.heic").write_bytes(self.HEIC)
        for source in (alone.parent, alone, self.pack_tar(alone.parent, "alone.tar")):
            said = self.refused("inspect", source)
            self.assertIn("no images that Kiln reads: 3 files are HEIC photos", said)
            self.assertNotIn("contains no images.", said)
        self.assertIn("a HEIC photo", self.refused("score", *use, alone / "0.heic"))
        (alone / "renamed.jpg").write_bytes(self.HEIC)
        self.assertIn("a HEIC photo", kiln("inspect", alone.parent, "--check").stdout)

    def test_only_images_leave_as_images(self):
        """A link among the images may lead to any file: it is named, and its bytes stand nowhere."""
        data = self.copy_data()
        (self.folder / "secret").write_bytes(self.SECRET)
        image = sorted(path for path in data.rglob("*") if path.is_file())[0]
        image.unlink()
        image.symlink_to(self.folder / "secret")
        made = self.folder / "made"
        made.mkdir()
        said = ""
        for command in (("convert", data, made / "converted"), ("pack", data, made / "packed"),
                        ("pack", data, made / "tfrecord", "--format", "tfrecord"),
                        ("split", "--src-path", data, "--output-path", made / "split"),
                        self.train_arguments(train_data_path=data, max_bad_images=5, trained_model_path=made / "model",
                                             log_path=made / "logs")):
            said = self.done(*command)
            self.assertIn(image.name, said, command)
            self.assertIn("text", said, command)
            self.assertNotIn("secret words", said)
        for command in (("score", "--trained-model-path", made / "model", "--data-path", data, "--output-path", made / "scores.csv"),
                        ("inspect", data, "--check")):
            result = kiln(*command)
            (made / command[0]).write_text(result.stdout + result.stderr)
            self.assertIn(image.name, result.stdout + result.stderr)
        for name, contents in files_below(made).items():
            self.assertNotIn(b"root:x", contents, name)
            self.assertNotIn(b"cm9vdDp4", contents, name)  # in base64

    def test_files_without_a_size(self):
        """The kernel's own files say 0 bytes, and are read to their end."""
        result = kiln("train", "--config", "/proc/self/environ", environment={"A": "1"})
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("/proc/self/environ", result.stderr)


class Labels(FlowTest):
    """What labels mean is decided once, over all ranks, parts and both sets."""


class Pixels(FlowTest):
    """The same picture everywhere: orientation and depth."""


class Bitmaps(FlowTest):
    """Bitmaps have Pillow's pixels, the same ones every time; sizes fit in memory."""


class Weights(FlowTest):
    """Weights that other programs wrote."""


class Answers(FlowTest):
    """Reports speak of the model that was saved."""


class Nights(FlowTest):
    """Nothing is lost at the end of a run, and nothing outside can hold one."""


class Ranks(FlowTest):
    """Ranks, hosts and resumed runs work on the same bytes."""

    def copies(self, **folders):
        """A place for each of two ranks with a copy of each of `folders`, which the second may spoil."""
        places = [self.folder / "rank0", self.folder / "rank1"]
        for place in places:
            for name, source in folders.items():
                shutil.copytree(source, place / name)
        return places

    def refused(self, places, code, words, *sentences):
        """The command is started in both places, and refused before anything is trained or scored."""
        ranks = [["-np", 1, "-wdir", place, KILN, *words] for place in places]
        result = subprocess.run(["mpirun", "--oversubscribe", *map(str, [*ranks[0], ":", *ranks[1]])], capture_output=True,
                                text=True, env={**os.environ, **ENVIRONMENT}, timeout=100)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for sentence in sentences:
            self.assertRegex(result.stderr, sentence)
        self.assertNotIn("Epoch", result.stdout)
        if words[0] == "train":
            self.assertEqual(self.error_info()["ErrorCode"], code)

    def exchange_two_classes(self, folder):
        """Their files have the same names."""
        one, other = sorted(folder.iterdir())[:2]
        one.rename(folder / "x")
        other.rename(one)
        (folder / "x").rename(other)

    def test_ranks_train_one_model_on_the_same_contents(self):
        places = self.copies(model=self.untrained, train=self.data / "train")
        words = self.train_arguments(untrained_model_path="model", train_data_path="train", threads=1, loader_threads=1)
        self.exchange_two_classes(places[1] / "train")
        self.refused(places, 18, words, r"Training dataset differs between ranks: .* on rank 1 on host ")
        shutil.rmtree(places[1] / "model")
        self.assertEqual(kiln("init-model", "resnet34", "--untrained-model-path", places[1] / "model").returncode, 0)
        self.refused(places, 159, words, r"Ranks found different models in --untrained-model-path 'model': rank 1 on host \S+ "
                     r"found resnet34 \S+, rank 0 found resnet18 ")

    def test_ranks_score_with_one_model(self):
        self.assertEqual(self.train().returncode, 0)
        places = self.copies(model=self.folder / "model", images=self.data / "val")
        words = ["score", "--trained-model-path", "model", "--data-path", "images", "--output-path", self.folder / "scores.csv",
                 "--log-path", self.folder / "logs", "--threads", 1]
        labels = places[1] / "model/index_to_label.csv"
        labels.write_text(labels.read_text().replace("circle", "ring"))
        self.refused(places, 159, words, r"Ranks found different models in --trained-model-path 'model': rank 1 on host ")
        self.assertFalse((self.folder / "scores.csv").exists())

    def test_what_was_exchanged_before_a_run_is_resumed_is_named(self):
        train = self.copy_data()
        again = {"train_data_path": train, "checkpoint_path": self.folder / "checkpoints"}
        self.assertEqual(self.train(**again).returncode, 0)
        self.exchange_two_classes(train)
        result = self.train(**again, epochs=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = "32 training images do not have the bytes that this run read under the same name before: 'circle/0000.jpg', "
        self.assertIn(said, result.stdout + result.stderr)
        self.assertIn(said, (self.folder / "logs/metrics.jsonl").read_text())


if __name__ == "__main__":
    main()
