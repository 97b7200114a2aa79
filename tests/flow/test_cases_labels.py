"""Reports of users of other trainers, and files from them, through the real program: what labels mean."""
import json
import os
import shutil
import struct
import subprocess

from flow import KILN, FlowTest, kiln, main
from forms import tar_of
from jobs import ENVIRONMENT
from test_record_files import record


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


if __name__ == "__main__":
    main()
