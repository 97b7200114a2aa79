"""Lists and folders of other programs, which the readers of data sets read by one rule. Numbers are those of the cases; what is
right is compared."""
import csv
import json
import os
import shutil
import subprocess
import sys
import tarfile

from flow import FlowTest, kiln, main

ARROW = {**os.environ, "PYTHONPATH": os.environ.get("KILN_ARROW_ROOT", ".deps/arrow")}

# Columns by name as JSON; "bytes:PATH" in a struct stands for the bytes of a file.
PARQUET = """
import json, pathlib, sys
import pyarrow, pyarrow.parquet
columns = json.load(sys.stdin)
for image in columns.get("image", []):
    image["bytes"] = pathlib.Path(image["bytes"]).read_bytes()
pyarrow.parquet.write_table(pyarrow.table(columns), sys.argv[1])
"""


class ListsTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.pictures = sorted((self.data / "train").glob("*/*"))
        for i, picture in enumerate(self.pictures[:12]):
            shutil.copy(picture, self.folder / f"{i}.jpg")

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def table(self, name, *rows):
        return self.put(name, "".join(",".join(row) + "\n" for row in rows))

    def parquet(self, name, **columns):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([sys.executable, "-c", PARQUET, path], input=json.dumps(columns), text=True, env=ARROW,
                              capture_output=True)
        if "ModuleNotFoundError" in made.stderr:
            self.skipTest("pyarrow is not installed")
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def counts(self, path, *options):
        """Images by class, as inspect counts them."""
        found = kiln("inspect", path, "--json", *options)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        return {one["name"]: one["images"] for one in json.loads(found.stdout)["classes"]}

    def assert_not_read(self, path, *options):
        found = kiln("inspect", path, "--json", *options)
        self.assertEqual(found.returncode, 1, found.stdout + found.stderr)


class Files(ListsTest):
    """Which files a list or a folder names."""

    def test_an_archive_with_both_sets(self):
        """Case 106: as the folder that it unpacks to, also below a folder of all."""
        for base in ("", "all/"):
            with tarfile.open(self.folder / "both.tar", "w") as tar:
                for part in ("train", "val"):
                    tar.add(self.data / part, base + part)
            result = self.train(train_data_path=None, valid_data_path=None, data_path=self.folder / "both.tar")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual([sum(self.start_event()["data"][f"{part}_counts"]) for part in ("train", "valid")],
                             [len(list((self.data / part).glob("*/*"))) for part in ("train", "val")])

    def test_separators_of_windows(self):
        r"""Case 107: a\b.jpg and a/b\c.jpg by one rule in tables, lists of files and COCO."""
        for i in range(4):
            self.put(f"a/b/{i}.jpg", "")
            shutil.copy(self.pictures[i], self.folder / f"a/b/{i}.jpg")
        for form in ("a\\b\\{}.jpg", "a/b\\{}.jpg"):
            names = [form.format(i) for i in range(4)]
            self.assertEqual(self.counts(self.table("l.csv", ("path", "label"), *((name, "xy"[i % 2]) for i, name in enumerate(names)))),
                             {"x": 2, "y": 2})
            coco = {"images": [{"id": i, "file_name": name} for i, name in enumerate(names)],
                    "annotations": [{"id": i, "image_id": i, "category_id": i % 2} for i in range(4)],
                    "categories": [{"id": 0, "name": "x"}, {"id": 1, "name": "y"}]}
            self.assertEqual(self.counts(self.put("coco.json", json.dumps(coco))), {"x": 2, "y": 2})
            scored = kiln("score", "--trained-model-path", self.trained_model, "--files-from", self.put("files", "\r\n".join(names)),
                          "--output-path", self.folder / "scores.csv", cwd=self.folder)
            self.assertEqual(scored.returncode, 0, scored.stderr)
            with open(self.folder / "scores.csv", newline="") as file:
                self.assertEqual([bool(row["label"]) for row in csv.DictReader(file)], [True] * 4)
        rooted = self.table("r.csv", ("path", "label"), *((f"C:\\set\\a\\b\\{i}.jpg", "xy"[i % 2]) for i in range(4)))
        self.assertEqual(self.counts(rooted, "--list-root", f"C:/set/={self.folder}"), {"x": 2, "y": 2})

    def test_a_folder_of_parquet_shards(self):
        """Case 112: one data set."""
        for n in range(2):
            self.parquet(f"data/train-{n:05}-of-00002.parquet", label=["x", "y"],
                         image=[{"bytes": str(self.pictures[2 * n + i]), "path": f"{i}.jpg"} for i in range(2)])
        self.assertEqual(self.counts(self.folder / "data"), {"x": 2, "y": 2})

    def test_lines_that_end_with_a_carriage_return(self):
        """Case 114: as other lines, in tables and in lists of files."""
        self.assertEqual(self.counts(self.put("l.csv", "path,label\r0.jpg,x\r1.jpg,y\r")), {"x": 1, "y": 1})
        scored = kiln("score", "--trained-model-path", self.trained_model, "--files-from", self.put("files", "0.jpg\r1.jpg\r"),
                      "--output-path", self.folder / "scores.csv", cwd=self.folder)
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assertEqual(len((self.folder / "scores.csv").read_text().splitlines()), 3)

    def test_names_with_escaped_characters(self):
        """Case 117: the decoded name, if that file is there; a file of the name as written goes before it."""
        for i, name in enumerate(("my photo 0.jpg", "my photo 1.jpg", "my%20photo%201.jpg")):
            shutil.copy(self.pictures[i], self.folder / name)
        made = kiln("convert", self.table("l.csv", ("path", "label"), ("my%20photo%200.jpg", "x"), ("my%20photo%201.jpg", "y")),
                    self.folder / "out")
        self.assertEqual(made.returncode, 0, made.stderr)
        found = sorted(path.read_bytes() for path in (self.folder / "out").rglob("*.jpg"))
        self.assertEqual(found, sorted(self.pictures[i].read_bytes() for i in (0, 2)))


    def test_a_list_without_an_extension(self):
        """C10: the name says what a file is, and what to do is told."""
        path = self.table("train", ("path", "label"), ("0.jpg", "x"), ("1.jpg", "y"))
        self.assert_refused(kiln("inspect", path), 1, "'" + str(path), ".csv or .txt")
        self.assert_refused(kiln("split", path, "--output-path", self.folder / "out"), 1, "rename the file", ".csv (a table)")


class Labels(ListsTest):
    """What labels mean."""

    def test_true_and_false(self):
        """Case 108: the same classes in tables, JSON and manifests."""
        expected = self.counts(self.table("l.csv", ("path", "label"), *((f"{i}.jpg", "True" if i % 2 else "False") for i in range(4))))
        rows = [{"path": f"{i}.jpg", "label": i % 2 == 1} for i in range(4)]
        manifest = [{"source-ref": row["path"], "kind": row["label"], "kind-metadata": {"type": "groundtruth/image-classification"}}
                    for row in rows]
        for name, text in (("l.jsonl", "\n".join(map(json.dumps, rows))), ("l.json", json.dumps(rows)),
                           ("l.manifest", "\n".join(map(json.dumps, manifest)))):
            found = self.counts(self.put(name, text))
            self.assertEqual({label.lower(): count for label, count in found.items()},
                             {label.lower(): count for label, count in expected.items()})

    def test_a_column_for_each_class(self):
        """Case 118: 0 and 1 in a column for each class are its labels."""
        rows = [(f"{i}.jpg", *(" 1" if i % 3 == k else " 0" for k in range(3))) for i in range(6)]
        path = self.table("l.csv", ("filename", " cat", " dog", " owl"), *rows)
        self.assertEqual(self.counts(path, "--task", "multi-label"), {"cat": 2, "dog": 2, "owl": 2})

    def test_flags_in_parquet(self):
        """A3: booleans, one for each class, are no names of classes."""
        self.assert_not_read(self.parquet("b.parquet", path=[f"{i}.jpg" for i in range(4)],
                                          label=[[True, False], [False, True], [True, True], [False, False]]),
                             "--task", "multi-label")

    def test_a_confidence_of_zero(self):
        """A4: in every spelling, no label; what is no number is a fault."""
        for zero in ("0.00", "00", "-0", "+0", "0e0"):
            found = self.counts(self.table("l.csv", ("path", "label", "Confidence"), ("0.jpg", "a", "1"), ("1.jpg", "b", zero)))
            self.assertEqual(found.get("b", 0), 0, zero)
        self.assert_not_read(self.table("l.csv", ("path", "label", "Confidence"), ("0.jpg", "a", "1"), ("1.jpg", "b", "high")))

    def test_columns_that_are_given(self):
        """A5: go before usual names; a key twice, or a column for two keys, is refused."""
        path = self.table("l.csv", ("path", "label", "split"), ("0.jpg", "a", "train"), ("1.jpg", "b", "valid"))
        found = kiln("inspect", path, "--json", "--columns", "group=split")
        self.assertEqual(found.returncode, 0, found.stderr)
        self.assertNotIn("sets", json.loads(found.stdout))
        self.assertEqual(self.counts(path, "--columns", "split=,label=split"), {"train": 1, "valid": 1})
        for columns in ("path=path,label=path", "label=label,label=path"):
            self.assertNotEqual(kiln("inspect", path, "--columns", columns).returncode, 0, columns)

    def test_long_numbers(self):
        """A7: numbers that differ stay two classes, or are refused."""
        for one, other in (("18446744073709551616", "18446744073709551617"), ("1e22", "10000000000000000000001"),
                           ("0.1", "0.10000000000000002")):
            found = kiln("inspect", self.put("l.jsonl", f'{{"path":"0.jpg","label":{one}}}\n{{"path":"1.jpg","label":{other}}}\n'),
                         "--json")
            if found.returncode != 1:
                self.assertEqual(len(json.loads(found.stdout)["classes"]), 2, (one, other))

    def test_structs_in_parquet(self):
        """A8: are no names of classes."""
        self.assert_not_read(self.parquet("l.parquet", path=[f"{i}.jpg" for i in range(4)],
                                          label=[[{"n": "a"}], [{"n": "b"}], [], []]), "--task", "multi-label")

    def test_several_labels_for_a_model_of_one(self):
        """A12: evaluate refuses a list of several labels an image, as audit and train do."""
        names = sorted({picture.parent.name for picture in self.pictures})
        path = self.table("l.csv", ("path", "label"), ("0.jpg", names[0]), ("1.jpg", ";".join(names[:2])), ("2.jpg", names[1]))
        result = kiln("evaluate", "--trained-model-path", self.trained_model, "--data-path", path, "--output-path",
                      self.folder / "out")
        if result.returncode != 1:
            self.assert_names(result.stdout + result.stderr, "several labels")

    def test_a_label_that_ends_in_a_separator(self):
        """A13: U+001F is refused in a label as every other control character is."""
        self.assert_not_read(self.table("l.csv", ("path", "label"), ("0.jpg", "a\x1f"), ("1.jpg", "b")))
        self.assert_not_read(self.put("l.jsonl", '{"path":"0.jpg","label":"a\\u001f"}\n{"path":"1.jpg","label":"b"}\n'))

    def test_text_after_a_list(self):
        """A16: is refused, and named without a brace that is not there."""
        one = '[{"path":"0.jpg","label":"a"}]'
        for more in (', "x": [{"path":"1.jpg","label":"b"}]', " x", one):
            found = kiln("inspect", self.put("l.json", one + more))
            self.assertEqual(found.returncode, 1, found.stdout)
            self.assertNotIn("'}'", found.stderr)


class Clouds(ListsTest):
    """The lists of services that are no more or will not be, as docs/coming-from.md has them."""

    def test_vertex_ai(self):
        """Its import file has no header: the set, the photo, the class."""
        rows = [(("training", "validation", "test")[i % 3], f"gs://bucket/{i}.jpg", "ab"[i % 2]) for i in range(12)]
        self.assertEqual(self.counts(self.table("import.csv", *rows), "--columns", "split=1,path=2,label=3",
                                     "--list-root", f"gs://bucket/={self.folder}/"), {"a": 6, "b": 6})
        found = kiln("inspect", self.folder / "import.csv", "--json", "--columns", "split=1,path=2,label=3",
                     "--list-root", f"gs://bucket/={self.folder}/")
        self.assertEqual(json.loads(found.stdout)["sets"], {"train": 4, "valid": 4, "test": 4})

    def test_lookout_for_vision(self):
        lines = [{"source-ref": f"s3://bucket/{i}.jpg", "anomaly-label": i % 2, "anomaly-label-metadata": {
            "class-name": ("normal", "anomaly")[i % 2], "confidence": 1, "human-annotated": "yes",
            "type": "groundtruth/image-classification", "job-name": "x", "creation-date": "2024-01-31T10:00:00"}}
            for i in range(12)]
        path = self.put("train.manifest", "".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(self.counts(path, "--list-root", f"s3://bucket/={self.folder}/"), {"anomaly": 6, "normal": 6})


if __name__ == "__main__":
    main()
