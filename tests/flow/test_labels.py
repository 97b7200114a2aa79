"""Labels from lists: every form of the same images trains to the bits of class folders; sets, groups, weights and faults."""
import csv
import json
import os
import pathlib
import shutil
import subprocess
import sys

from flow import FlowTest, kiln, main
from resumed_runs import Job

ARROW = {**os.environ, "PYTHONPATH": os.environ.get("KILN_ARROW_ROOT", ".deps/arrow")}

# Hugging Face's form: a struct of bytes and path, and the names of the labels in the metadata.
PARQUET = """
import json, pathlib, sys
import pyarrow, pyarrow.parquet
rows = json.load(sys.stdin)
names = sorted({row["label"] for row in rows})
images = [{"bytes": pathlib.Path(row["path"]).read_bytes(), "path": row["path"]} for row in rows]
features = {"info": {"features": {"image": {"_type": "Image"}, "label": {"names": names, "_type": "ClassLabel"}}}}
table = pyarrow.table({"image": images, "label": [names.index(row["label"]) for row in rows]})
table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
if "split" in rows[0]:
    table = table.append_column("split", [[row["split"] for row in rows]])
pyarrow.parquet.write_table(table, sys.argv[1], row_group_size=7)
"""


class LabelsTest(FlowTest):
    def rows(self, part):
        """The images of class folders, in their order."""
        return [{"path": str(path), "label": path.parent.name} for path in sorted((self.data / part).glob("*/*"))]

    def put(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def table(self, name, rows, delimiter=","):
        path = self.folder / name
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
        return path

    def weights(self, name, **options):
        result = self.train(trained_model_path=self.folder / name, log_path=self.folder / f"{name}-logs", **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return (self.folder / name / "model").read_bytes()

    def made_parquet(self, path, rows):
        return subprocess.run([sys.executable, "-c", PARQUET, path], input=json.dumps(rows), text=True, env=ARROW, capture_output=True)

    def forms(self, part):
        """Name of a form -> a list of that form, and options."""
        rows = self.rows(part)
        names = sorted({row["label"] for row in rows})
        lines = [json.dumps(row) for row in rows]
        bucket = [json.dumps({"source-ref": row["path"].replace(str(self.data), "s3://bucket"), "kind": names.index(row["label"]),
                              "kind-metadata": {"class-name": row["label"], "type": "groundtruth/image-classification"}})
                  for row in rows]
        coco = {"images": [{"id": i, "file_name": os.path.relpath(row["path"], self.data)} for i, row in enumerate(rows)],
                "annotations": [{"image_id": i, "category_id": names.index(row["label"])} for i, row in enumerate(rows)],
                "categories": [{"id": i, "name": name} for i, name in enumerate(names)]}
        classes = self.put("classes", "\n".join(names))
        parquet = self.folder / f"{part}.parquet"
        made = self.made_parquet(parquet, rows)
        forms = {"csv": (self.table(f"{part}.csv", rows), {}), "jsonl": (self.put(f"{part}.jsonl", "\n".join(lines)), {}),
                 "manifest": (self.put(f"{part}.manifest", "\n".join(bucket)), {"list_root": f"s3://bucket/={self.data}"}),
                 "lst": (self.put(f"{part}.lst", "".join(f"{i}\t{names.index(row['label'])}.000000\t{row['path']}\n"
                                                         for i, row in enumerate(rows))), {"classes": classes}),
                 "coco": (self.put(f"{part}.json", json.dumps(coco)), {"list_root": self.data})}
        if made.returncode == 0:
            forms["parquet"] = (parquet, {})
        return forms

    def test_every_form_trains_to_the_bits_of_folders(self):
        expected = self.weights("folders")
        valid = self.forms("val")
        for name, (train, options) in self.forms("train").items():
            with self.subTest(name):
                self.assertEqual(self.weights(name, train_data_path=train, valid_data_path=valid[name][0], **options), expected)
        if "parquet" not in valid:
            self.skipTest("pyarrow is not installed")

    def test_given_classes_go_by_the_names_that_parquet_has(self):
        rows = self.rows("train")
        names = sorted({row["label"] for row in rows}, reverse=True)
        parquet = self.folder / "named.parquet"
        if self.made_parquet(parquet, rows).returncode != 0:
            self.skipTest("needs pyarrow")
        classes = self.put("reversed", "\n".join(names))
        converted = kiln("convert", parquet, self.folder / "named", "--classes", classes)
        self.assertEqual(converted.returncode, 0, converted.stderr)
        labels = {pathlib.Path(row["path"]).read_bytes(): row["label"] for row in rows}
        found = [json.loads(line) for line in (self.folder / "named/images.lst").read_text().splitlines()]
        self.assertEqual(len(found), len(rows))
        for image in found:
            self.assertEqual(image["category"], labels[(self.folder / "named" / image["image_info"]["file_name"]).read_bytes()])

    def test_two_ranks_and_a_resumed_run_train_to_the_bits_of_folders(self):
        lists = {part: self.table(f"{part}.csv", [{**row, "path": os.path.relpath(row["path"], self.data)} for row in self.rows(part)])
                 for part in ("train", "val")}
        by_list = {"train_data_path": lists["train"], "valid_data_path": lists["val"], "list_root": self.data}
        two = {"ranks": 2, "batch_size": 12, "threads": 1}
        self.assertEqual(self.weights("two", **by_list, **two), self.weights("folders", **two))
        jobs = [Job(self.folder / f"job-{name}", self.untrained, self.data, **options)
                for name, options in (("list", by_list), ("folders", {}))]
        jobs[0].stop_after(3)
        for job in jobs:
            code, output = job.run()
            self.assertEqual(code, 0, output)
        self.assertEqual([len(job.events("resume")) for job in jobs], [1, 0])
        self.assertEqual(*[(job.folder / "model/model").read_bytes() for job in jobs])

    def test_a_column_gives_both_sets_and_another_weighs_the_loss(self):
        rows = [{**row, "set": "train"} for row in self.rows("train")] + [{**row, "set": "val"} for row in self.rows("val")]
        test = rows.pop()
        both = self.table("both.csv", [*rows, {**test, "set": "test"}])
        alone = self.table("val.csv", [row for row in rows if row["set"] == "val"])
        one = {"train_data_path": None, "valid_data_path": None}
        expected = self.weights("folders", valid_data_path=alone)
        self.assertEqual(self.weights("both", data_path=both, **one), expected)
        self.assert_names((self.folder / "both-logs/70_driver_log_0.txt").read_text(), "1 image of the set test")
        weighted = [{**row, "weight": 1 + (row["label"] > "c")} for row in rows]
        self.assertNotEqual(self.weights("weighted", data_path=self.table("weighted.csv", weighted), **one), expected)
        even = [{**row, "weight": 1} for row in rows]
        self.assertEqual(self.weights("even", data_path=self.table("even.csv", even), **one), expected)
        self.weights("fitted", data_path=self.folder / "weighted.csv", freeze="backbone", **one)
        for name in ("weighted", "fitted"):
            self.assert_names((self.folder / f"{name}-logs/70_driver_log_0.txt").read_text(), "image weights: ")
        for name, count in (("test", 1), ("valid", len(self.rows("val")) - 1)):
            result = kiln("evaluate", "--trained-model-path", self.folder / "both", "--data-path", both, "--split-name", name,
                          "--output-path", self.folder / name)
            self.assertEqual(result.returncode, 0, result.stderr)
            found = json.loads((self.folder / name / "evaluation.json").read_text())
            self.assert_names(json.dumps(found), f'"images": {count}')

    def test_images_in_a_file_are_named_by_their_row(self):
        rows = [{**row, "split": "test" if i % 3 == 0 else "train"} for i, row in enumerate(self.rows("val"))]
        if self.made_parquet(self.folder / "rows.parquet", rows).returncode != 0:
            self.skipTest("needs pyarrow")
        for name in ("train", "test"):
            scored = kiln("score", "--trained-model-path", self.trained_model, "--data-path", self.folder / "rows.parquet",
                          "--split-name", name, "--output-path", self.folder / f"{name}.csv")
            self.assertEqual(scored.returncode, 0, scored.stderr)
            with open(self.folder / f"{name}.csv", newline="") as file:
                self.assertEqual([int(row["path"].split(".")[0]) for row in csv.DictReader(file)],
                                 [i for i, row in enumerate(rows) if row["split"] == name])

    def test_labels_of_a_flat_folder_and_other_commands(self):
        photos = self.folder / "photos"
        photos.mkdir()
        rows = []
        for i, row in enumerate(self.rows("train")):
            shutil.copy(row["path"], photos / f"{i:03}.jpg")
            rows.append({"path": f"{i:03}.jpg", "label": row["label"]})
        labels = self.table("labels.csv", rows[1:])
        one = {"train_data_path": None, "valid_data_path": None, "batch_size": 8}
        self.weights("flat", data_path=photos, labels=labels, **one)
        self.assert_names((self.folder / "flat-logs/70_driver_log_0.txt").read_text(), "1 of", "--labels")
        root = ["--list-root", photos]
        model = ["--trained-model-path", self.trained_model]
        for words in (["score", *model, "--data-path", labels, "--output-path", self.folder / "scores.csv", *root],
                      ["audit", labels, *model, "--output-path", self.folder / "audit", *root],
                      ["pack", labels, self.folder / "shards", *root], ["convert", labels, self.folder / "converted", *root],
                      ["split", labels, "--output-path", self.folder / "parts", *root]):
            result = kiln(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len((self.folder / "scores.csv").read_text().splitlines()), len(rows))

    def test_options_that_the_form_of_the_data_has_no_use_for_are_said(self):
        words = {"columns": "label=class", "list-root": self.folder, "record-keys": "label=class", "first-label": 1}
        flags = [word for name, value in words.items() for word in (f"--{name}", value)]
        made, data, model = self.folder / "made", self.data / "val", self.trained_model
        table = self.table("list.csv", [{"path": row["path"], "class": row["label"]} for row in self.rows("val")])
        commands = {
            "score": ["--trained-model-path", model, "--data-path", data], "inspect": [data], "pack": [data, made / "pack"],
            "evaluate": ["--trained-model-path", model, "--data-path", data, "--output-path", made / "evaluate"],
            "audit": [data, "--trained-model-path", model, "--output-path", made / "audit"], "convert": [data, made / "convert"],
            "split": [data, "--output-path", made / "split"]}
        for name, command in commands.items():
            with self.subTest(name):
                unused = words if name == "inspect" else {**words, "split-name": ""}
                result = kiln(name, *command, *flags, *([] if unused is words else ["--split-name", "valid"]))
                self.assert_unused(result, unused)
        self.assert_unused(self.train(**{name.replace("-", "_"): value for name, value in words.items()}, shuffle_buffer=5),
                           [*words, "shuffle-buffer"])
        self.assert_unused(kiln("convert", table, made / "list", "--columns", "label=class", "--record-keys", "label=class"),
                           ["record-keys"])
        self.assert_unused(kiln("convert", table, made / "list2", "--columns", "label=class"), [])

    def assert_unused(self, result, names):
        """One line says that these options have no effect."""
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [line for line in (result.stdout + result.stderr).splitlines() if "no effect" in line]
        self.assertEqual(len(lines), len(names) > 0, lines)
        for line in lines:
            found = {word[2:] for word in line.split(" ha")[0].split(": ", 1)[-1].replace(",", "").split() if word.startswith("--")}
            self.assertEqual(found, set(names), line)

    def test_faults_name_the_option(self):
        for name, text, words in (
                ("a.csv", "path,label\ns3://bucket/a.jpg,cat\n", ["--list-root 's3://bucket/="]),
                ("b.csv", "path,label\nhttps://host/a.jpg,cat\n", ["downloads no images"]),
                ("c.csv", "path,label\na.jpg,cat\na.jpg,dog\n", ["line 3", "line 2"]),
                ("d.parquet", "PAR1 but no more", ["Parquet"])):
            result = self.train(train_data_path=self.put(name, text))
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assert_names(result.stderr, name, *words)


if __name__ == "__main__":
    main()
