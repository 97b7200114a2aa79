"""Reports of users of other trainers, and files from them, through the real program: each case is made here, and what is right is
compared. A class is a family of cases."""
import argparse
import csv
import decimal
import fcntl
import gzip
import http.server
import io
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import struct
import subprocess
import tarfile
import termios
import threading
import time
import zipfile
import zlib

from flow import KILN, FlowTest, files_below, kiln, main
from jobs import ENVIRONMENT
from test_record_files import record
from weight_files import Tensor, read_zip, torchvision_names, write_safetensors, write_zip


class FormsTest(FlowTest):
    """Writes the same files as a folder and as archives."""

    def setUp(self):
        super().setUp()
        files = sorted(path for path in (self.data / "train").rglob("*") if path.is_file())
        self.pictures = [path.read_bytes() for path in files]
        self.suffix = files[0].suffix

    def place(self, name):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_tar(self, name, members):
        """A member is (name, bytes), or (name, type of link, target)."""
        path = self.place(name)
        with tarfile.open(path, "w") as tar:
            for member, *content in members:
                entry = tarfile.TarInfo(member)
                if len(content) == 2:
                    entry.type, entry.linkname = content
                    tar.addfile(entry)
                else:
                    entry.size = len(content[0])
                    tar.addfile(entry, io.BytesIO(content[0]))
        return path

    def write_zip(self, name, members):
        path = self.place(name)
        with zipfile.ZipFile(path, "w") as archive:
            for member, *content in members:
                entry = zipfile.ZipInfo(member)
                if len(content) == 2:
                    entry.create_system, entry.external_attr = 3, 0o120777 << 16
                archive.writestr(entry, content[-1])
        return path

    def write_folder(self, name, members):
        for member, *content in members:
            path = self.place(f"{name}/{member}")
            if len(content) == 2:
                path.symlink_to(content[1])
            else:
                path.write_bytes(content[0])
        return self.folder / name

    def labels(self, path):
        """The bytes of each image that is read, with its class; and what was said."""
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        made = kiln("convert", "--input-path", path, "--output-path", out)
        self.assertEqual(made.returncode, 0, made.stderr)
        rows = [json.loads(line) for line in (out / "images.lst").read_text().splitlines()]
        return sorted(((out / row["image_info"]["file_name"]).read_bytes(), row.get("category")) for row in rows), made.stdout + made.stderr

    def forms(self, members):
        """The same files as a folder, archives and a folder of shards."""
        yield self.write_folder("folder", members)
        yield self.write_zip("a.zip", members)
        yield self.write_tar("a.tar", members)
        yield self.write_tar("shards/s-0.tar", members).parent
        with gzip.open(self.folder / "a.tgz", "wb", 1) as packed:
            packed.write((self.folder / "a.tar").read_bytes())
        yield self.folder / "a.tgz"


class Archives(FormsTest):
    """What lies in an archive or a shard is read as the folder that unpacking would give."""
    CLASSES = ["cat", "dog", "owl"]
    APPLE = b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(60)

    def stream_counts(self, path):
        """Images by class of a validation stream."""
        with open(path, "rb") as tar:
            words = [KILN, *self.train_arguments(train_data_path=self.data / "train", valid_data_path="-", threads=1)]
            result = subprocess.run([*map(str, words)], stdin=tar, capture_output=True, text=True, timeout=300)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return self.start_event()["data"]["valid_counts"]

    def test_one_rule_in_every_form(self):
        """Cases 01, 02, 03, 64, 67: the label of each image is the same in every form, and what is left out is named."""
        of, image = self.CLASSES, self.pictures
        name = "img_0.{:02}".format
        dotted = [entry for i in range(6) for entry in ((name(i) + self.suffix, image[i]), (name(i) + ".cls", of[i % 3].encode()))]
        apple = [("._" + member, self.APPLE) for member, _ in dotted]
        masks = [(name(i) + ".seg" + self.suffix, image[10 + i]) for i in range(6)]
        expected = sorted((image[i], of[i % 3]) for i in range(6))
        for path in self.forms(dotted + apple + masks):
            with self.subTest(path=path.name):
                found, said = self.labels(path)
                self.assertEqual(found, expected)
                self.assert_names(said, "6 images")
        shutil.rmtree(self.folder / "folder")
        classes = [(f"{label}/{i}{self.suffix}", image[3 * i + k]) for k, label in enumerate(of[:2]) for i in range(2)]
        junk = [(f"{folder}/9{self.suffix}", image[20]) for folder in ("@eaDir", "__MACOSX", ".ipynb_checkpoints", "cat/@eaDir")]
        links = [(f"owl/{i}{self.suffix}", tarfile.SYMTYPE, f"../cat/{i}{self.suffix}") for i in range(2)]
        lost = [(f"owl/lost{self.suffix}", tarfile.SYMTYPE, "nothing")]
        expected = sorted([(image[3 * i + k], label) for k, label in enumerate(of[:2]) for i in range(2)] +
                          [(image[3 * i], "owl") for i in range(2)])
        for path in self.forms(classes + junk + links + lost):
            with self.subTest(path=path.name):
                found, said = self.labels(path)
                self.assertEqual(found, expected)
                self.assertIn("owl/lost" + self.suffix, said)
        hard = [(member, tarfile.LNKTYPE, "cat/" + member.split("/")[1]) for member, _, _ in links]
        self.assertEqual(self.labels(self.write_tar("hard.tar", classes + hard))[0], expected)

    def test_a_stream_has_the_labels_of_the_archive(self):
        names = sorted(path.name for path in (self.data / "train").iterdir())
        members = [entry for i in range(9) for entry in ((f"set_0.{i}{self.suffix}", self.pictures[i]),
                                                         (f"set_0.{i}.seg{self.suffix}", self.pictures[20]),
                                                         (f"set_0.{i}.cls", names[i // 3].encode()))]
        self.assertEqual(self.stream_counts(self.write_tar("stream.tar", members)), [3, 3, 3])

    def test_contradictions_are_refused(self):
        """Two rules with two labels, a name twice, numbers and names, a number written in two ways: both sides are named."""
        one, other = self.pictures[:2]
        image, second = "a.x" + self.suffix, "b" + self.suffix
        for members, words in (
                ([(image, one), ("a.x.cls", b"1"), ("a.cls", b"0")], ("'a.x.cls'", "'a.cls'")),
                ([(image, one), (image, other)], (f"'{image}'", "twice")),
                ([(image, one), ("a.x.cls", b"0"), (second, other), ("b.cls", b"cat")], ("'0'", "'cat'")),
                ([(image, one), ("a.x.cls", b"1"), (second, other), ("b.cls", b"01")], ("'1'", "'01'")),
                ([(image, one), ("a.x.cls", b" ")], ("'a.x.cls'", "empty"))):
            with self.subTest(words=words):
                made = kiln("convert", "--input-path", self.write_tar("bad.tar", members), "--output-path", self.folder / "out")
                self.assertEqual(made.returncode, 1, made.stdout)
                self.assert_names(made.stderr, *words)

    def test_names_and_links_in_every_form(self):
        """Empty parts of names, and links to what is hidden, as git-annex keeps it."""
        image = self.pictures
        members = [(f"cat/./0{self.suffix}", image[0]), (f"dog//1{self.suffix}", image[1]), (".annex/k2", image[2]),
                   (f"cat//2{self.suffix}", tarfile.SYMTYPE, "..//.annex/./k2")]
        for path in self.forms(members):
            with self.subTest(path=path.name):
                self.assertEqual(self.labels(path)[0], sorted([(image[0], "cat"), (image[1], "dog"), (image[2], "cat")]))

    def test_archives_of_other_programs(self):
        """Cases 04 and 60: backslashes as separators; frames that are to be skipped, as pzstd writes."""
        members = [(f"train\\{label}\\{i}{self.suffix}", self.pictures[3 * i + k])
                   for k, label in enumerate(self.CLASSES) for i in range(2)]
        expected = sorted((content, member.split("\\")[1]) for member, content in members)
        self.assertEqual(self.labels(self.write_zip("windows.zip", members))[0], expected)
        tar = self.write_tar("plain.tar", [(member.replace("\\", "/"), content) for member, content in members])
        if not (program := shutil.which("zstd")):
            self.skipTest("there is no zstd")
        packed = subprocess.run([program, "-qc", tar], capture_output=True, check=True).stdout
        (self.folder / "p.tar.zst").write_bytes(b"\x50\x2a\x4d\x18\4\0\0\0abcd" + packed)
        self.assertEqual(self.labels(self.folder / "p.tar.zst")[0], expected)


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


class Labels(FlowTest):
    """What labels mean is decided once, over all ranks, parts and both sets."""

    def ranks(self, *parts, **options):
        """One rank for each (training, validation)."""
        words = []
        for train, valid in parts:
            words += [*([":"] if words else []), "-np", 1, KILN, *self.train_arguments(
                train_data_path=train, valid_data_path=valid, shard_by="none", batch_size=4, threads=1, loader_threads=1, **options)]
        return subprocess.run(["mpirun", "--oversubscribe", *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, **ENVIRONMENT}, timeout=100)

    def counts(self, trained):
        """Of each class, in the order of the model: its name, training and validation images."""
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        return [(name, *data["counts"][name].values()) for name in data["classes"]]

    def pictures(self, count):
        return [path.read_bytes() for path in sorted((self.data / "train").rglob("*.*"))[:count]]

    def records(self, name, labels):
        """A TFRecord of images with these numbers."""
        path = self.folder / f"{name}.tfrecord"
        path.write_bytes(b"".join(record(image=image, label=label) for image, label in zip(self.pictures(len(labels)), labels)))
        return path

    def shard(self, name, labels):
        """A tar of images with these labels beside them."""
        path = self.folder / f"{name}.tar"
        path.write_bytes(tar_of([entry for i, image in enumerate(self.pictures(len(labels)))
                                 for entry in ((f"{i}.png", image), (f"{i}.cls", str(labels[i]).encode()))]))
        return path

    def names(self, *names):
        (self.folder / "names.txt").write_text("".join(f"{name}\n" for name in names))
        return self.folder / "names.txt"

    def both(self, train, valid, **options):
        return self.train(train_data_path=train, valid_data_path=valid, batch_size=4, **options)

    def test_one_decision_over_ranks_and_sets(self):
        """Numbers count from 1, which only the first part shows; the given order is kept; numbers are sorted as numbers."""
        names = self.names("owl", "dog", "cat")
        valid = self.records("valid", [1, 2])
        trained = self.ranks((self.records("0", [1, 2, 3, 3] * 2), valid), (self.shard("1", [1, 2] * 4), valid), classes=names)
        self.assertEqual(self.counts(trained), [("owl", 6, 2), ("dog", 6, 2), ("cat", 4, 0)])
        trained = self.ranks((self.records("0", [0, 10, 1, 2] * 2), valid), (self.records("1", [3, 10] * 4), valid))
        self.assertEqual([name for name, *_ in self.counts(trained)], ["0", "1", "2", "3", "10"])

    def test_parts_that_contradict_each_other_are_refused(self):
        numbers, words = self.shard("numbers", [0, 1] * 4), self.shard("words", ["cat", "dog"] * 4)
        refused = self.ranks((numbers, numbers), (words, words))
        self.assertEqual(refused.returncode, 1, refused.stdout + refused.stderr)
        self.assert_names(refused.stderr, "'cat'", words, numbers, "--classes")

    def test_both_sets_count_from_one_number(self):
        """Case 40, and a list of classes."""
        for make in (self.records, self.shard):
            with self.subTest(make.__name__):
                train, valid, other = (make(*row) for row in (("t", [1, 2, 3, 3] * 2), ("v", [1, 2]), ("o", [0, 3])))
                names = self.names("owl", "dog", "cat")
                self.assertEqual(self.counts(self.both(train, valid, classes=names)), [("owl", 2, 1), ("dog", 2, 1), ("cat", 4, 0)])
                shutil.rmtree(self.folder / "model")
                self.assert_fails(self.both(train, make("z", [0, 2]), classes=names), 1, 18,
                                  f"'{train}'", f"'{self.folder / 'z'}.", "0 to 2", "1 to 3", "3 classes")
                self.assert_fails(self.both(train, make("u", [1, 2]), classes=self.names("a", "b", "c", "d"),
                                            trained_model_path=self.folder / "no"), 1, 18, "--first-label 0", "--first-label 1")
                self.assert_fails(self.both(train, other, trained_model_path=self.folder / "no"), 1, 18, "'0'", "'1', '2', '3'")
                self.assertEqual(self.counts(self.both(train, other, classes=self.names("0", "1", "2", "3"), first_label=0)),
                                 [("0", 0, 1), ("1", 2, 0), ("2", 2, 0), ("3", 4, 1)])

    def test_a_stream_counts_as_the_validation_images_do(self):
        names, valid = self.names("owl", "dog", "cat"), self.shard("valid", [1, 3])
        for stream in (self.shard("stream", [1, 2, 3, 3]), self.records("stream", [1, 2, 3, 3])):
            with self.subTest(stream.suffix), open(stream, "rb") as source:
                words = self.train_arguments(train_data_path="-", valid_data_path=valid, classes=names, batch_size=4,
                                             steps_per_epoch=1, threads=1)
                trained = subprocess.run([KILN, *map(str, words)], stdin=source, capture_output=True, text=True, timeout=100)
                self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)  # 3 is no class that counts from 0

    def test_names_or_numbers_is_one_decision(self):
        """Labels that are given names and may be numbers are what the other set's are."""
        names = self.names("1", "2", "3")
        trained = self.both(self.shard("t", [0, 1, 2, 0, 1, 2, 2, 2]), self.shard("v", [1, 2, 1, 2]), classes=names)
        self.assertEqual(self.counts(trained), [("1", 2, 0), ("2", 2, 2), ("3", 4, 2)])

    def test_names_beside_a_file_and_inside_an_archive(self):
        """A single file has what lies beside it; an archive what unpacking it would give."""
        def classes(path):
            return [entry["name"] for entry in json.loads(kiln("inspect", path, "--json").stdout)["classes"]]

        expected = classes(self.data / "train")
        for name in ("tar", "recordio"):
            self.assertEqual(kiln("pack", self.data / "train", self.folder / name, "--format", name).returncode, 0)
            packed, = (path for path in (self.folder / name).iterdir() if path.suffix in (".tar", ".rec"))
            self.assertEqual(classes(packed), expected)
        (self.folder / "tar/classes.txt").write_text("\n".join(expected) + "\n\n")
        self.assertEqual(classes(self.folder / "tar"), expected)
        entries = [entry for i, image in enumerate(self.pictures(3))
                   for entry in ((f"set/{i}.png", image), (f"set/{i}.cls", str(i).encode()))]
        inside = self.folder / "inside.tar"
        inside.write_bytes(tar_of([*entries, ("set/classes.txt", b"owl\ndog\ncat\n")]))
        self.assertEqual(classes(inside), ["owl", "dog", "cat"])
        self.assertNotIn("classes.txt", kiln("inspect", inside, "--json").stdout)
        (self.folder / "classes.txt").write_text("owl\ncat\ndog\n")
        refused = kiln("inspect", inside)
        self.assert_refused(refused, 1, "classes.txt")

    def test_numbers_without_names_are_told(self):
        """Cases 17, 41 and 59: of which classes the ids are, and how to name them. A header is no image."""
        def recordio(numbers, image):
            data = struct.pack("<IfQQ", 0 if image else len(numbers), numbers[0], 0, 0)
            data += image or struct.pack(f"<{len(numbers)}f", *numbers)
            return struct.pack("<II", 0xced7230a, len(data)) + data + bytes(-len(data) % 4)

        path = self.folder / "faces.rec"
        path.write_bytes(recordio([13, 3_000_000], b"") +
                         b"".join(recordio([label], image) for label, image in zip([5, 2, 2], self.pictures(3))))
        for data, words in ((path, "headers"), (self.shard("sparse", [5, 2, 2]), "2 to 5, of which 2 are used")):
            with self.subTest(data.name):
                found = json.loads(kiln("inspect", data, "--json").stdout)
                self.assertEqual([entry["name"] for entry in found["classes"]], ["2", "5"])
                self.assertEqual(found["images"], 3)
                self.assert_names(" ".join(found["notes"]), words, "--classes")

    def test_ids_that_no_category_has_are_named(self):
        """Case 18."""
        folder = self.write_coco()
        coco = json.loads((folder / "labels.json").read_text())
        for entry in coco["categories"]:
            entry["id"] = entry["id"] * 2 + 1
        for entry in coco["annotations"]:
            entry["category_id"] = entry["category_id"] * 2 + 1
        (folder / "labels.json").write_text(json.dumps(coco))
        notes = " ".join(json.loads(kiln("inspect", folder, "--json").stdout)["notes"])
        self.assert_names(notes, "labels.json", "0, 2, 4")


class Pixels(FlowTest):
    """The same picture everywhere: phones store it in eight orientations."""
    SIZE = 40, 24  # upright, height and width

    @staticmethod
    def png(rows, orientation=None):
        """Rows of pixels, with an eXIf chunk."""
        def chunk(name, body):
            return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        exif = b"" if orientation is None else chunk(b"eXIf", b"II*\0" + struct.pack("<IHHHIII", 8, 1, 274, 3, 1, orientation, 0))
        header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
        data = zlib.compress(b"".join(b"\0" + b"".join(row) for row in rows))
        return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + exif + chunk(b"IDAT", data) + chunk(b"IEND", b"")

    def stored(self, rows, orientation):
        """How a camera held so stores the picture."""
        if orientation in (3, 4, 7, 8):
            rows = rows[::-1]
        if orientation in (2, 3, 6, 7):
            rows = [row[::-1] for row in rows]
        return self.png([list(column) for column in zip(*rows)] if orientation >= 5 else rows, orientation)

    def setUp(self):
        super().setUp()
        draw = random.Random(4)
        height, width = self.SIZE
        for label in "ab":
            folder = self.folder / "photos" / label
            folder.mkdir(parents=True)
            rows = [[bytes(draw.randrange(256) for _ in range(3)) for _ in range(width)] for _ in range(height)]
            (folder / "0.png").write_bytes(self.png(rows))
            for orientation in range(1, 9):
                (folder / f"{orientation}.png").write_bytes(self.stored(rows, orientation))
        self.photos = self.folder / "photos"
        self.done("convert", "--input-path", self.photos, "--output-path", self.folder / "images")

    def done(self, *arguments):
        result = kiln(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def pictures(self, path, *options):
        """How many different pictures kiln sees in each class."""
        operations, out = self.folder / "operations", self.folder / "changed"
        if not operations.exists():
            self.done("transform", "init", "--output-path", operations)
        shutil.rmtree(out, ignore_errors=True)
        self.done("transform", "apply", "--mode", "For inference", "--input-image-transform-path", operations,
                  "--input-image-dir-path", path, "--output-path", out, *options)
        found = {}
        for line in (out / "images.lst").read_text().splitlines():
            row = json.loads(line)
            data = (out / row["image_info"]["file_name"]).read_bytes()
            self.assertNotIn(b"eXIf", data)
            found.setdefault(row["category"], set()).add(data)
        return [len(found[label]) for label in "ab"]

    def test_every_form_shows_the_same_picture(self):
        """Case 09: turned once, never twice, in every form; an ImageDirectory as the designer sees it, unless it is asked for."""
        packed, small = self.folder / "packed", self.folder / "small"
        self.done("pack", self.photos, packed)
        self.done("pack", self.photos, small, "--short-side", "20")
        with tarfile.open(packed / "photos-000000.tar") as tar:
            stored = {tar.extractfile(member).read() for member in tar if member.name.endswith(".png")}
        self.assertEqual(stored, {path.read_bytes() for path in self.photos.rglob("*.png")})
        self.assertEqual(stored, set(files_below(self.folder / "images/image").values()))
        for path in (self.photos, packed, small):
            with self.subTest(path=path.name):
                self.assertEqual(self.pictures(path), [1, 1])
                turned = json.loads(kiln("inspect", path, "--json").stdout)["turned_images"]
                self.assertEqual(turned, 0 if path == small else 14)
        self.assertEqual(self.pictures(self.photos, "--exif", "ignore"), [8, 8])
        self.assertEqual(self.pictures(self.folder / "images"), [8, 8])
        self.assertEqual(self.pictures(self.folder / "images", "--exif", "apply"), [1, 1])

    def probabilities(self, path):
        """How many different answers the model gives for each class's pictures."""
        self.done("score", "--trained-model-path", self.folder / "model", "--data-path", path,
                  "--output-path", self.folder / "scores.csv", "--raw", "--all-classes")
        with open(self.folder / "scores.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 18)
        return sum(len({row["probability_a"] for row in rows if row["true_label"] == label}) for label in "ab")

    def test_a_model_keeps_what_it_was_trained_on(self):
        """The training images decide for both sets, and the model for all later images, whatever their form."""
        images, model = self.folder / "images", self.folder / "model"
        first = self.train(train_data_path=self.photos, valid_data_path=images, batch_size=6)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"image size: +24x40 \(all images have this size")
        self.assertNotIn("EXIF orientation, which", first.stdout + first.stderr)
        how = json.loads((model / "preprocessing.json").read_text())
        self.assertEqual((how["exif"], how["input_size"]), ("apply", list(self.SIZE)))
        for path in (self.photos, images):
            self.assertEqual(self.probabilities(path), 2)
        del how["exif"]  # as models were before
        (model / "preprocessing.json").write_text(json.dumps({**how, "resize_short_side": 40}))
        self.assertGreater(self.probabilities(self.photos), 2)
        second = self.train(train_data_path=images, valid_data_path=self.photos, batch_size=6, image_size=32)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(second.stdout.count("14 of 18 images"), 2, second.stdout)
        self.assertEqual(json.loads((model / "preprocessing.json").read_text())["exif"], "ignore")
        self.assertGreater(self.probabilities(self.photos), 2)


class Bitmaps(FlowTest):
    """Bitmaps have Pillow's pixels, the same ones every time; sizes fit in memory."""

    @staticmethod
    def bitmap(form, seed):
        """A bitmap of 32 x 32 pixels, and the same picture as PPM."""
        draw = random.Random(seed)
        count = 86 if form == "short" else 256
        colors = [bytes(draw.randrange(256) for _ in range(3)) for _ in range(count)]
        data = bytes(draw.randrange(256) for _ in range(1024))
        pixels = b"".join(colors[index][::-1] if index < count else b"\0\0\0" for index in data)
        header = struct.pack("<IIiHHIIIIII", 40, 32, -32, 1, 8, 0, 1024, 0, 0, count, 0)
        palette = b"".join(color + b"\0" for color in colors)
        if form == "suggested":
            header, palette = struct.pack("<IIiHHIIIIII", 52, 32, -32, 1, 24, 0, 0, 0, 0, 4, 0) + bytes(12), bytes(16)
            data = b"".join(pixels[at:at + 3][::-1] for at in range(0, len(pixels), 3))
        offset = 14 + len(header) + len(palette)
        return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + palette + data,
                b"P6 32 32 255\n" + pixels)

    def test_bitmaps_of_every_kind(self):
        """Cases 62 and 11: a palette shorter than its indexes, a suggested palette. The model is that of the same pictures in
        another format. A file of OS/2 is a bad image, by name."""
        models = []
        for kind in range(2):
            data = self.folder / f"data{kind}"
            for number, form in enumerate(("short", "suggested") * 6):
                path = data / "ab"[number % 2] / f"{number}{('.bmp', '.ppm')[kind]}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.bitmap(form, number)[kind])
            result = self.train(train_data_path=data, valid_data_path=data, batch_size=6)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("bad image", result.stderr)
            models.append((self.folder / "model/model.safetensors").read_bytes())
        self.assertEqual(models[0], models[1])
        old = self.folder / "old/a/0.bmp"
        old.parent.mkdir(parents=True)
        old.write_bytes(b"BM" + struct.pack("<IHHI", 29, 0, 0, 26) + struct.pack("<IHHHH", 12, 1, 1, 1, 24) + bytes(3))
        self.assertIn("OS/2", kiln("inspect", old.parent.parent, "--check").stdout)


class Weights(FlowTest):
    """Weights that other programs wrote."""

    def setUp(self):
        super().setUp()
        self.state = torchvision_names(read_zip(self.untrained / "model"))
        self.changed = self.state | {"conv1.weight": Tensor("Float", (64, 3, 7, 7), bytes(4 * 64 * 147))}

    def init(self, weights, *more):
        return kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "made", "--weights", weights, *more)

    def assert_takes(self, weights, state, *words):
        made = self.init(weights)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(torchvision_names(read_zip(self.folder / "made/model")), state)
        self.assert_names(made.stdout, *words)

    def test_training_checkpoints(self):
        """Cases 05, 07 and 08: a compiled network and its average, in a checkpoint with objects that no tensor needs."""
        path = self.folder / "night#2.pth.tar"
        average = {f"module.{name}": item for name, item in self.changed.items()} | {"n_averaged": Tensor("Long", (), bytes(8))}
        compiled = {f"model._orig_mod.{name}" if i % 2 else name: item for i, (name, item) in enumerate(self.state.items())}
        write_zip(path, {
            "epoch": 3, "arch": "resnet18", "args": argparse.Namespace(lr=0.1, output=pathlib.PurePosixPath("/out")),
            "state_dict": compiled, "state_dict_ema": average, "metric": decimal.Decimal("71.2"), "random": random.getstate(),
            "ids": {1, 2}, "raw": b"x"})
        self.assert_takes(path, self.state, "its state_dict; for another, add #state_dict_ema")
        self.assert_takes(f"{path}#state_dict_ema", self.changed, "its state_dict_ema; for another, add #state_dict")
        self.assert_refused(self.init(f"{path}#ema"), 1, "no part 'ema'", "#state_dict or #state_dict_ema")
        report = json.loads(kiln("inspect", f"{path}#state_dict_ema", "--json").stdout)
        self.assertEqual((report["part"], report["parts"], report["tensors"]),
                         ("state_dict_ema", ["state_dict", "state_dict_ema"], len(average)))

    def test_networks_in_one_state_dict(self):
        """None is guessed; `#` takes one; a file with `#` in its own name is that file."""
        path = self.folder / "a.pth"
        networks = {"student": self.state, "module.teacher": self.changed}
        write_zip(path, {f"{network}.{name}": item for network, state in networks.items() for name, item in state.items()})
        self.assert_refused(self.init(path), 1, "#student or #teacher")
        self.assert_takes(f"{path}#teacher", self.changed, "its teacher; for another, add #student")
        path.rename(f"{path}#teacher")
        self.assert_refused(self.init(f"{path}#teacher"), 1, "#student or #teacher")

    def test_published_weights_have_a_word(self):
        self.assert_refused(self.init("resnet18-f37072fd.pth"), 1, "'resnet18-f37072fd.pth'", "--weights torchvision")
        result = self.train(untrained_model_path=None, model_name="resnet18", weights="imagenet")
        self.assert_refused(result, 1, "--weights torchvision")

    def test_values_are_finite(self):
        """Row L2."""
        path = self.folder / "bad.safetensors"
        train = {"untrained_model_path": None, "model_name": "resnet18", "weights": path}
        for run, name, kind, form, value in ((self.init, "layer1.0.bn1.running_var", "Float", "<f", "inf"),
                                             (lambda _: self.train(**train), "fc.bias", "Double", "<d", "1e300")):
            with self.subTest(name=name):
                shape = self.state[name].shape
                item = Tensor(kind, shape, struct.pack(form, float(value)) * shape[0])
                write_safetensors(path, self.state | {name: item})
                self.assert_refused(run(path), 1, "bad.safetensors", name)

    def test_a_model_keeps_what_it_knows(self):
        """Its classes in init-model; its normalization, beside its model.safetensors."""
        trained = self.train(normalization="half")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        model = (self.folder / "model").rename(self.folder / "first")
        made = self.init(model)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual((self.folder / "made/index_to_label.csv").read_bytes(), (model / "index_to_label.csv").read_bytes())
        self.assertEqual(read_zip(self.folder / "made/model"), read_zip(model / "model"))
        (model / "_meta.yaml").unlink()
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=model / "model.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.training()["data"]["normalization"]["mean"], [0.5] * 3)


class Answers(FlowTest):
    """Reports speak of the model that was saved."""

    def test_score_says_which_images_the_model_has_seen(self):
        for part, word in (("train", "training images of the model"), ("val", "validation images that selected the model")):
            scored = kiln("score", "--trained-model-path", self.trained_model, "--data-path", self.data / part,
                          "--output-path", self.folder / "scores.csv")
            self.assertEqual(scored.returncode, 0, scored.stderr)
            self.assertRegex(scored.stdout + scored.stderr, rf"warning: \d+ images are .*{word}")


class Nights(FlowTest):
    """Nothing is lost at the end of a run, and nothing outside can hold one."""

    def blocked_pipe(self):
        """The end to write of a pipe that is full and that nobody reads."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, bytes(4096))
        return writer

    def wait_for(self, path, word, process, patience=60):
        """Until the file has the word."""
        end = time.monotonic() + patience
        while not path.exists() or word not in path.read_text(errors="replace"):
            self.assertIsNone(process.poll(), f"it ended before '{word}'")
            self.assertLess(time.monotonic(), end, f"'{word}' never came")
            time.sleep(0.02)

    def test_a_console_that_nobody_reads_holds_no_run(self):
        for number, (both, stop, ranks) in enumerate(((False, signal.SIGTERM, None), (True, signal.SIGINT, 2))):
            with self.subTest(both=both, ranks=ranks):
                logs, model = self.folder / f"logs-{number}", self.folder / f"model-{number}"
                console = self.blocked_pipe()
                words = self.train_arguments(epochs=4000, patience=4000, print_freq=1, threads=1, loader_threads=1, ranks=ranks,
                                             log_path=logs, trained_model_path=model)
                process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=console,
                                           stderr=console if both else subprocess.DEVNULL, start_new_session=True)
                self.addCleanup(process.kill)
                os.close(console)
                self.wait_for(logs / "70_driver_log_0.txt", "Epoch 2,", process)
                process.send_signal(stop)
                self.assertEqual(process.wait(60), 128 + stop)
                self.assertTrue((model / "_meta.yaml").exists())
                self.assertRegex((logs / "70_driver_log_0.txt").read_text(), r"Epoch 1,(.*\n)+.*Stopped by signal ")

    def start_training(self, **options):
        """A run that goes on until it is stopped."""
        words = self.train_arguments(**{"epochs": 4000, "patience": 4000, "threads": 1, "loader_threads": 1, **options})
        process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_disk_that_is_too_small_is_told_before_the_first_step(self):
        place = self.folder / "small"
        place.mkdir()
        mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=$0m none "$1" && shift && exec "$@"']
        if subprocess.run([*mount, "1", place, "true"], capture_output=True).returncode != 0:
            self.skipTest("no small disk can be mounted")
        checkpoints = {"checkpoint_path": place / "checkpoints"}
        for megabytes, options, words in ((60, {}, "for the model, twice its weights,"),
                                          (240, checkpoints, "for 2 checkpoints and the next one")):
            with self.subTest(megabytes=megabytes):
                command = [*mount, megabytes, place, KILN, *self.train_arguments(trained_model_path=place / "model", **options)]
                result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100)
                self.assert_fails(result, 3, 160, "The disk has ", " left, and this run needs ", words)
                self.assertNotIn("Epoch 1", result.stdout)

    def test_a_model_that_cannot_be_written_is_kept_elsewhere(self):
        model, temporary = self.folder / "model", self.folder / "temporary"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        self.addCleanup(os.environ.pop, "TMPDIR")
        for beside_logs in (True, False):
            with self.subTest(beside_logs=beside_logs):
                logs = self.folder / f"logs-{beside_logs}"
                run = self.start_training(log_path=logs)
                self.wait_for(logs / "70_driver_log_0.txt", "Epoch 1,", run)
                if not beside_logs:
                    (logs / "kept_model").write_text("a file")
                shutil.rmtree(model)
                model.write_text("a file")
                run.send_signal(signal.SIGTERM)
                said = run.communicate(timeout=60)[0]
                model.unlink()
                self.assertEqual(run.returncode, 3, said)
                kept = logs / "kept_model" if beside_logs else next(temporary.glob("kiln-model-*"))
                self.assertIn(f"'{kept}'", said)
                self.assertEqual(kiln("inspect", kept).returncode, 0)

    def test_a_model_that_will_be_replaced_is_described(self):
        again = {"checkpoint_path": self.folder / "checkpoints", "threads": 1}
        first = self.train(**again)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertNotIn("will replace", first.stdout)
        resumed = self.train(**{**again, "epochs": 2})
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn("will replace", resumed.stdout)
        other = self.train(threads=1)
        self.assertRegex(other.stdout, rf"This run will replace the model in '{self.folder}/model': 3 classes \('circle', "
                         r"'\w+', '\w+'\), top-1 [0-9.]+ %, of the run that began 20\d\d-")

    def test_two_runs_with_one_log_folder(self):
        """The second is refused; one that is restarted waits for the first, which leaves no lock when it is killed."""
        log = self.folder / "logs/70_driver_log_0.txt"
        first = self.start_training()
        self.wait_for(log, "Epoch 1,", first)
        second = self.train(trained_model_path=self.folder / "other")
        self.assert_refused(second, 3, self.folder / "logs")
        self.assertFalse((self.folder / "logs/module_statistics/error_info.json").exists())
        restarted = self.start_training(epochs=1)
        said = ""
        while "Waiting for the run that writes its logs to" not in said:
            said += restarted.stdout.readline()
        first.kill()
        said += restarted.communicate(timeout=60)[0]
        self.assertEqual(restarted.returncode, 0, said)
        self.assertIn("Epoch 1,", log.read_text())

    def test_a_name_that_mlflow_refuses_costs_that_one(self):
        """Case 29: servers before 2.16 know no colon in a name, and refuse all that comes with it."""
        accepted = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                names = [item["key"] for kind in ("metrics", "params") for item in json.loads(body or "{}").get(kind, [])]
                refuses = any(":" in name for name in names)
                accepted.extend([] if refuses else names)
                info = {"run_id": "r", "experiment_id": "0", "artifact_uri": "file:/x"}
                answer = {"message": "Invalid name"} if refuses else {"run": {"info": info, "data": {}}, "experiment_id": "0"}
                self.send_response(400 if refuses else 200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        train, valid = self.copy_data(), self.copy_data("val")
        for part in (train, valid):
            (part / "circle").rename(part / "a:b")
        words = self.train_arguments(train_data_path=train, valid_data_path=valid, threads=1)
        result = kiln(*words, environment={"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.server_port}"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"MLflow: 1 of \d+ points.* could not be sent \(refused: 'Recall/class a:b'\)")
        recalls = [name for name in accepted if name.startswith("Recall/class ")]
        self.assertEqual(len(recalls), 2)
        self.assertIn("epochs", accepted)

    def test_threads_far_beyond_the_processors_are_refused(self):
        if len(os.sched_getaffinity(0)) > 31:
            self.skipTest("this machine has enough processors")
        result = self.train(threads=1024)
        self.assert_fails(result, 1, 2000, "--threads is 1024, but", "Give at most ")

    def test_a_second_signal_ends_a_run_whose_terminal_is_paused(self):
        main_side, side = pty.openpty()
        self.addCleanup(os.close, main_side)
        words = self.train_arguments(epochs=4000, patience=4000, print_freq=1, threads=1, loader_threads=1)
        process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=side, stderr=side, start_new_session=True)
        self.addCleanup(process.kill)
        termios.tcflow(side, termios.TCOOFF)
        os.close(side)
        self.wait_for(self.folder / "logs/70_driver_log_0.txt", "Epoch 1,", process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 128 + signal.SIGTERM)


def tar_of(members):
    """Pairs of a name and bytes."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return file.getvalue()


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
        """The command is started in both places, and refused before anything is trained."""
        ranks = [["-np", 1, "-wdir", place, KILN, *words] for place in places]
        result = subprocess.run(["mpirun", "--oversubscribe", *map(str, [*ranks[0], ":", *ranks[1]])], capture_output=True,
                                text=True, env={**os.environ, **ENVIRONMENT}, timeout=100)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for sentence in sentences:
            self.assertRegex(result.stderr, sentence)
        self.assertNotIn("Epoch", result.stdout)
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

    def train_on_streams(self, *streams):
        """One rank on each of so many hosts, of which each has its own stream; its files are made while it is read."""
        words = []
        for number, stream in enumerate(streams):
            place = self.folder / f"host{number}"
            place.mkdir(exist_ok=True)
            (place / "train_0.tar").write_bytes(stream)
            apart = ["unshare", "--uts", "sh", "-c", f'hostname host{number}; exec "$@"', "sh"]
            train = self.train_arguments(train_data_path="train_{epoch}.tar", shard_by="host", batch_size=4, steps_per_epoch=3,
                                         image_size=32, threads=1, loader_threads=1, max_bad_images=2)
            words += [*([":"] if words else []), "-np", 1, "-wdir", place, *apart, KILN, *train]
        return subprocess.run(["mpirun", "--oversubscribe", *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, **ENVIRONMENT}, timeout=100)

    def test_hosts_divide_the_stream_that_each_of_them_has(self):
        if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
            self.skipTest("hosts with names of their own are made by root alone")
        names = sorted((self.data / "train").rglob("*.*"), key=lambda path: (path.name, path.parent.name))[:24]
        members = [(f"train/{path.parent.name}/{path.name}", path.read_bytes()) for path in names]
        members[5] = ("train/circle/bad.png", b"no image")
        result = self.train_on_streams(tar_of(members), tar_of(members))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        logs = [(self.folder / f"logs/70_driver_log_{rank}.txt").read_text() for rank in (0, 1)]
        self.assertEqual([log.count("train/circle/bad.png") for log in logs], [0, 1])
        result = self.train_on_streams(tar_of(members), tar_of(members[::-1]))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "Training dataset differs between ranks that divide it: rank 1 on host host1 found .*, "
                         "rank 0 on host host0 found ")

    def test_what_was_exchanged_before_a_run_is_resumed_is_named(self):
        train = self.copy_data()
        again = {"train_data_path": train, "checkpoint_path": self.folder / "checkpoints"}
        self.assertEqual(self.train(**again).returncode, 0)
        self.exchange_two_classes(train)
        result = self.train(**again, epochs=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = "32 training images do not have the bytes that this run read under the same name before: 'circle/0000.jpg', "
        self.assertIn(said, (self.folder / "logs/metrics.jsonl").read_text())


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
