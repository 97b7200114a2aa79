"""Record files as data: every command reads them, faults in them are told, and they train to the bits of their source."""
import json
import pathlib
import shutil
import struct

from flow import FlowTest, files_below, kiln, main


def crc_table():
    """Of CRC-32C, a byte at a time."""
    table = list(range(256))
    for number in range(256):
        for _ in range(8):
            table[number] = table[number] >> 1 ^ (0x82f63b78 if table[number] & 1 else 0)
    return table


CRC = crc_table()


def checksum(data):
    """As TFRecord has it."""
    crc = 0xffffffff
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def varint(number):
    data = b""
    while number > 127:
        data += bytes([number & 127 | 128])
        number >>= 7
    return data + bytes([number])


def field(tag, data, more=0):
    """Of a protobuf message; `more` bytes of it are not in `data`, but follow it."""
    return bytes([tag]) + varint(len(data) + more) + data


def entry(key, value, more=0):
    """Of an Example's map of features."""
    return field(0x0a, field(0x0a, key.encode()) + field(0x12, value, more), more)


def features(image=None, label=None, text=None, keys=("image/encoded", "image/class/label")):
    made = b""
    if label is not None:
        made += entry(keys[1], field(0x1a, field(0x0a, varint(label))))
    if text is not None:
        made += entry("image/class/text", field(0x0a, field(0x0a, text.encode())))
    if image is not None:
        made += entry(keys[0], field(0x0a, field(0x0a, image)))
    return made


def head(size):
    length = struct.pack("<Q", size)
    return length + checksum(length)


def record(**content):
    example = field(0x0a, features(**content))
    return head(len(example)) + example + checksum(example)


def begin_of_huge_record(label, image_bytes):
    """Behind it come the image and four bytes."""
    image = entry("image/encoded", field(0x0a, field(0x0a, b"", image_bytes), image_bytes), image_bytes)
    example = field(0x0a, features(label=label) + image, image_bytes)
    return head(len(example) + image_bytes) + example


class RecordFilesTest(FlowTest):
    def pack(self, form, source=None):
        target = self.folder / form
        result = kiln("pack", source or self.data / "train", target, "--format", form)
        self.assertEqual(result.returncode, 0, result.stderr)
        return target

    def source(self):
        """The training images: (bytes, number of the class, its name)."""
        names = sorted(path.name for path in (self.data / "train").iterdir())
        return [((self.data / "train" / file).read_bytes(), names.index(file.split("/")[0]), file.split("/")[0])
                for file in sorted(files_below(self.data / "train"))]

    def write(self, name, records):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"".join(records))
        return path

    def steps(self, data, *more):
        """What the steps that write images of their own say of record files, by the folder in out/ that they write to."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        transformation = self.folder / "transformation"
        if not transformation.exists():
            self.assertEqual(kiln("transform", "init", transformation).returncode, 0)
        output = self.folder / "out"
        return {"converted": kiln("convert", data, output / "converted", *more),
                "split/train": kiln("split", "--src-path", data, "--output-path", output / "split", *more),
                "applied": kiln("transform", "apply", "--mode", "For inference", "--input-image-transform-path", transformation,
                                "--input-image-dir-path", data, "--output-path", output / "applied", *more)}

    def classes_of(self, folder):
        return {json.loads(line).get("category") for line in (folder / "images.lst").read_text().splitlines()}

    def model_of(self, data, **options):
        result = self.train(train_data_path=data, epochs=1, **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return (self.folder / "model/model").read_bytes()

    def inspected(self, path, *more):
        result = kiln("inspect", path, "--json", *more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def test_every_form_trains_to_the_bits_of_its_source(self):
        model = self.model_of(self.data / "train")
        for form in ("tfrecord", "recordio"):
            with self.subTest(form=form):
                self.assertEqual(self.model_of(self.pack(form)), model)

    def test_inspect_says_which_form(self):
        names = sorted(path.name for path in (self.data / "train").iterdir())
        for form, kind in (("tfrecord", "record files (TFRecord)"), ("recordio", "record files (RecordIO)"), ("tar", "archive")):
            with self.subTest(form=form):
                report = self.inspected(self.pack(form))
                self.assertEqual((report["kind"], report["images"], report["stored_files"]), (kind, 48, 1))
                self.assertEqual([entry["name"] for entry in report["classes"]], names)
        self.assertEqual(self.inspected(self.data / "train")["stored_files"], 48)

    def test_other_commands_read_them(self):
        records = self.pack("tfrecord", self.data / "val")
        for words in (("score", "--output-path", self.folder / "scores.csv"),
                      ("evaluate", "--output-path", self.folder / "evaluation")):
            with self.subTest(command=words[0]):
                result = kiln(words[0], "--trained-model-path", self.trained_model, "--data-path", records, *words[1:])
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        rows = (self.folder / "scores.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + self.inspected(records)["images"])
        self.assertIn("000000000.", rows[1])

    def test_a_wrong_checksum_is_a_bad_image_within_the_limit(self):
        shard = next(self.pack("tfrecord").glob("*.tfrecord"))
        data = bytearray(shard.read_bytes())
        length, = struct.unpack_from("<Q", data)
        data[12 + length - 100] ^= 1
        shard.write_bytes(data)
        self.assert_refused(self.train(train_data_path=shard.parent, epochs=1, max_bad_images=0), 1, "CRC-32C")
        result = self.train(train_data_path=shard.parent, epochs=1, max_bad_images=1)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(self.training()["image_faults"]), 1)
        self.assertEqual(json.loads(kiln("inspect", shard, "--json", "--check").stdout)["bad_images"], 1)
        score = ("score", "--trained-model-path", self.folder / "model", "--data-path", shard, "--output-path",
                 self.folder / "scores.csv", "--device", "cpu", "--max-bad-images")
        self.assert_refused(kiln(*score, 0), 1, "CRC-32C")
        scored = kiln(*score, "3%")
        self.assertEqual(scored.returncode, 0, scored.stdout + scored.stderr)
        for name, refused in self.steps(shard).items():
            self.assert_refused(refused, 1, "CRC-32C")
            self.assertFalse((self.folder / "out" / name / "_meta.yaml").exists())

    def test_a_file_that_is_cut_off_is_refused(self):
        for form, suffix in (("tfrecord", ".tfrecord"), ("recordio", ".rec")):
            shard = next(self.pack(form).glob("*" + suffix))
            shard.write_bytes(shard.read_bytes()[:-5])
            self.assert_refused(kiln("inspect", shard), 1, "in the middle of a record")

    def test_names_of_classes_from_a_file(self):
        shard = next(self.pack("recordio").glob("*.rec"))
        alone = pathlib.Path(self.folder / "alone.rec")
        alone.write_bytes(shard.read_bytes())
        self.assertEqual([entry["name"] for entry in self.inspected(alone)["classes"]], ["0", "1", "2"])
        names = self.folder / "names.txt"
        names.write_text("one\ntwo\nthree\n")
        self.assertEqual([entry["name"] for entry in self.inspected(alone, "--classes", names)["classes"]],
                         ["one", "two", "three"])
        names.write_text("one\ntwo\n")
        self.assert_refused(kiln("inspect", alone, "--classes", names), 1, "has label 2")
        self.assert_refused(kiln("inspect", self.pack("tfrecord"), "--record-keys", "image=other"), 1, "no feature 'other'")

    def test_steps_that_write_images_take_the_options(self):
        alone = self.write("alone.rec", [next(self.pack("recordio").glob("*.rec")).read_bytes()])
        names = self.folder / "names.txt"
        names.write_text("one\ntwo\nthree\nfour\n")
        keys = self.write("keys.tfrecord", [record(image=image, label=number + 1, keys=("jpeg", "y"))
                                            for image, number, _ in self.source()])
        for data, more in ((alone, ("--first-label", 0)), (keys, ("--record-keys", "image=jpeg,label=y", "--first-label", 1))):
            for name, done in self.steps(data, "--classes", names, *more).items():
                with self.subTest(data=data.name, name=name):
                    self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                    self.assertEqual(self.classes_of(self.folder / "out" / name), {"one", "two", "three"})
                    self.assertIn("four", (self.folder / "out" / name / "_schema.json").read_text())
        for done in self.steps(keys).values():
            self.assert_refused(done, 1, "no feature 'image/encoded'")

    def test_labels_that_no_class_has(self):
        data = self.pack("recordio")
        names = self.folder / "names.txt"
        names.write_text("one\ntwo\n")
        self.assert_fails(self.train(train_data_path=data, classes=names), 1, 18, "has label 2, but --classes", "Add a line")
        for name, refused in self.steps(data, "--classes", names).items():
            self.assert_refused(refused, 1, "has label 2, but --classes")
            self.assertFalse((self.folder / "out" / name / "_meta.yaml").exists())
        names.write_text("one\ntwo\nthree\n")
        self.assert_refused(kiln("pack", data, self.folder / "packed", "--classes", names, "--first-label", 1), 1, "has label 0")
        many = self.write("many.tfrecord", [record(image=b"x", label=100_000)])
        self.assert_refused(kiln("inspect", many), 1, "at most 100000 classes")

    def test_sources_of_different_classes(self):
        images = self.source()
        train = self.write("train.tfrecord", [record(image=image, label=number, text=name) for image, number, name in images])
        valid = self.write("valid.tfrecord", [record(image=image, label=number, text=name.replace(images[0][2], "zebra"))
                                              for image, number, name in images])
        self.assert_fails(self.train(train_data_path=train, valid_data_path=valid), 1, 18, "1 class is not in", "'zebra'")
        both = self.folder / "both"
        both.mkdir()
        for number, path in enumerate((train, valid)):
            shutil.copy(path, both / f"{number}.tfrecord")
        self.assert_fails(self.train(train_data_path=both), 1, 18, "different classes", "'zebra' in '1.tfrecord'")
        (both / "1.tfrecord").rename(both / "validation-00000-of-00001")
        (both / "0.tfrecord").rename(both / "train-00000-of-00001")
        self.assert_refused(kiln("inspect", both), 1, "files of several datasets")
        (both / "validation-00000-of-00001").unlink()
        shutil.copy(next(self.pack("tar").glob("*.tar")), both)
        self.assert_refused(kiln("inspect", both), 1, "archives", "record files", "another folder")

    def test_records_without_labels(self):
        data = self.write("plain.tfrecord", [record(image=image) for image, _, _ in self.source()])
        self.assert_fails(self.train(train_data_path=data), 1, 24, "no labels (record files)")
        self.assert_refused(kiln("pack", data, self.folder / "packed"), 1, "no labels")
        for name, done in self.steps(data).items():
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.classes_of(self.folder / "out" / name), {None})

    def test_a_record_of_two_gigabytes_is_a_bad_image(self):
        """A hole of the file stands for the image."""
        size = 2 << 30
        data = self.write("large.tfrecord", [record(image=image, label=number, text=name) for image, number, name in self.source()]
                          + [begin_of_huge_record(1, size)])
        with open(data, "r+b") as file:
            file.truncate(data.stat().st_size + size + 4)
        checked = kiln("inspect", data, "--json", "--check")
        self.assertEqual(checked.returncode, 1, checked.stdout + checked.stderr)
        report = json.loads(checked.stdout)
        self.assertEqual((report["images"], report["bad_images"]), (49, 1))
        self.assertIn("larger than 1 GiB", report["faults"][0]["fault"])
        trained = self.train(train_data_path=data, image_size=32, batch_size=7, max_bad_images=1)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        self.assertEqual(len(self.training()["image_faults"]), 1)

    def test_an_index_that_belongs_to_another_file(self):
        index = next(self.pack("recordio").glob("*.idx"))
        whole = index.read_text()
        for text, words in (("0\t0\n1\t100\n", "belongs to a different file"), (whole + whole, "belongs to a different file"),
                            (whole.rsplit("\n", 2)[0] + "\n", "belongs to a different file"), ("none", "line 1 is not a key and an offset")):
            index.write_text(text)
            self.assert_refused(kiln("inspect", index.parent), 1, str(index), words, "Remove it")
        self.assert_fails(self.train(train_data_path=index.parent), 1, 18, "line 1 is not a key and an offset")
        index.unlink()
        self.assertEqual(self.inspected(index.parent)["images"], 48)


if __name__ == "__main__":
    main()
