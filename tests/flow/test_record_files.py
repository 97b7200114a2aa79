"""Record files as data: every command reads them, faults in them are told, and they train to the bits of their source."""
import json
import pathlib
import struct

from flow import FlowTest, kiln, main


class RecordFilesTest(FlowTest):
    def pack(self, form, source=None):
        target = self.folder / form
        result = kiln("pack", source or self.data / "train", target, "--format", form)
        self.assertEqual(result.returncode, 0, result.stderr)
        return target

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

    def test_inspect_says_which_form_and_mode(self):
        names = sorted(path.name for path in (self.data / "train").iterdir())
        for form, kind in (("tfrecord", "record files (TFRecord)"), ("recordio", "record files (RecordIO)"), ("tar", "archive")):
            with self.subTest(form=form):
                report = self.inspected(self.pack(form))
                self.assertEqual((report["kind"], report["images"], report["stored_files"]), (kind, 48, 1))
                self.assertEqual([entry["name"] for entry in report["classes"]], names)
                self.assertEqual(report["sagemaker_mode"], "File")
        self.assertEqual(self.inspected(self.data / "train")["stored_files"], 48)

    def test_other_commands_read_them(self):
        self.model_of(self.data / "train")
        records = self.pack("tfrecord", self.data / "val")
        model = self.folder / "model"
        for words in (("score", "--output-path", self.folder / "scores.csv"),
                      ("evaluate", "--output-path", self.folder / "evaluation")):
            with self.subTest(command=words[0]):
                result = kiln(words[0], "--trained-model-path", model, "--data-path", records, *words[1:])
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
        self.assertIn("CRC-32C", result.stdout + result.stderr)
        self.assertEqual(json.loads(kiln("inspect", shard, "--json", "--check").stdout)["bad_images"], 1)

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

    def test_an_index_that_belongs_to_another_file(self):
        index = next(self.pack("recordio").glob("*.idx"))
        index.write_text("0\t0\n1\t100\n")
        self.assert_refused(kiln("inspect", index.parent), 1, "belongs to another")


if __name__ == "__main__":
    main()
