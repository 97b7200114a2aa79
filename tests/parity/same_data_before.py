#!/usr/bin/env python3
"""Reads small data sets of every form with two builds of kiln and compares what they find: the ImageDirectory that `convert`
writes (images.lst, _schema.json, the images' bytes), the report of `inspect --json`, and the exit codes of both. Of sentences
only the numbers are compared; NEW may say further fields.

    same_data_before.py OLD NEW [--only NAME …] [--without KEY …] [--keep]

OLD draws the images. `--without` names fields of `inspect` that NEW has no more. Exit 1: something differs. Parquet needs
pyarrow, which is looked for in KILN_ARROW_ROOT; without it those sets are listed as skipped.
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/flow"))
import test_record_files as record_files  # noqa: E402
import test_labels as label_lists  # noqa: E402
from forms import tar_of  # noqa: E402

CLASSES = ("cat", "dog", "owl")
PATIENCE = 60  # seconds for a command
SENTENCES = {"notes", "fault", "text"}


def zip_of(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


def table(rows, delimiter=",", end="\n"):
    return "".join(delimiter.join(map(str, row)) + end for row in rows).encode()


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


class Sets:
    """Writes the data sets below a folder: name -> (path, options). Flat images are 00.jpg and so on."""

    def __init__(self, folder, images):
        self.folder, self.images, self.sets, self.skipped = folder, images, {}, []
        self.names = [f"{i:02}.jpg" for i in range(len(images))]
        self.labels = [CLASSES[i % 3] for i in range(len(images))]
        self.numbers = [i % 3 for i in range(len(images))]
        self.flat = list(zip(self.names, images))
        self.rows = list(zip(self.names, self.labels))
        self.classes = [(f"{label}/{name}", image) for label, name, image in zip(self.labels, self.names, images)]
        self.both = [(f"{part}/{name}", image) for part in ("train", "val") for name, image in self.classes]

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def add(self, name, members, *options, entry=""):
        """A folder of these files; `entry` of it is what is read."""
        for member, data in members:
            self.write(f"{name}/{member}", data)
        self.sets[name] = (f"{name}/{entry}" if entry else name, options)

    def add_file(self, name, file, data, *options):
        self.add(name, [(file, data)], *options, entry=file)

    def add_list(self, name, file, data, *options):
        """A list beside flat images."""
        self.add(name, [*self.flat, (file, data)], *options, entry=file)

    def folders(self):
        image = self.images
        self.add("folders", self.classes)
        self.add("folders_hidden", [*self.classes, (".ipynb_checkpoints/a.jpg", image[0]),
                                    ("@eaDir/b.jpg", image[1]),
                                    ("cat/._00.jpg", b"\0\5\x16\7"), ("__MACOSX/cat/00.jpg", image[2]), ("Thumbs.db", b"x")])
        self.add("folders_other_files", [*self.classes, ("cat/readme.txt", b"hello"), ("dog/a.gif", b"GIF89a"),
                                         ("owl/a.avif", b"")])
        self.add("folders_nested", [(f"{label}/{i % 2}/{name}", data) for i, (label, (name, data)) in
                                    enumerate(zip(self.labels, self.flat))])
        self.add("folders_numbers", [(f"{number}/{name}", data) for number, (name, data) in zip((10, 2, 1) * 4, self.flat)])
        self.add("folders_zeros", [(f"{number:05}/{name}", data) for number, (name, data) in zip(self.numbers, self.flat)])
        self.add("folders_spoiled", [*self.classes, ("cat/cut.jpg", image[0][:100]), ("dog/empty.jpg", b""),
                                     ("owl/no.png", b"no")])
        self.add("folders_one_class", self.flat, entry="")
        self.add("folders_sets", self.both)
        self.add("folders_sets_train", self.both, entry="train")
        self.add("folders_list_beside", [*self.classes, ("labels.csv", table([("path", "label")] + self.rows))])
        self.add("folders_copies", [*self.classes, ("owl/copy.jpg", image[0]), ("dog/copy.jpg", image[0])])
        self.add("folders_empty_class", [*self.classes, ("wolf/nothing.txt", b"")])
        self.add("folders_unicode", [(f"{label}/{name}", data) for label, (name, data) in
                                     zip(("caf\u00e9", "cafe\u0301", "\u0441\u043e\u0432\u0430") * 4, self.flat)])
        self.add("folders_odd_names", [(f"{('a b', 'c;d')[i % 2]}/{i} %20#.jpg", image[i]) for i in range(6)])
        self.add("folders_deep", [(f"top/data/{name}", data) for name, data in self.classes])
        self.add("nothing", [("readme.txt", b"")])

    def archives(self):
        for kind, data in (("tar", tar_of(self.classes)), ("tgz", gzip.compress(tar_of(self.classes))), ("zip", zip_of(self.classes))):
            self.add_file(f"archive_{kind}", f"a.{kind}", data)
        self.add_file("archive_top", "a.zip", zip_of([(f"top/data/{name}", data) for name, data in self.classes]))
        self.add_file("archive_sets", "a.zip", zip_of(self.both))
        self.add_file("archive_flat", "a.tar", tar_of(self.flat))
        self.add_file("archive_backslashes", "a.zip", zip_of([(name.replace("/", "\\"), data) for name, data in self.classes]))
        self.add_file("archive_cut", "a.zip", zip_of(self.classes)[:-40])
        self.add_file("archive_twice", "a.tar", tar_of([self.classes[0], *self.classes]))
        self.add_file("archive_junk", "a.tar", tar_of([*self.classes, ("__MACOSX/cat/._0.jpg", b"\0\5\x16\7"), ("cat/a.txt", b"a")]))
        self.add_file("archive_with_list", "a.zip", zip_of([*self.flat, ("labels.csv", table([("path", "label")] + self.rows))]))
        self.add("archives_of_a_folder", [("1.tar", tar_of(self.classes[:6])), ("2.tar", tar_of(self.classes[6:]))])
        self.add("archives_by_sets", [("train.tar", tar_of(self.classes[:6])), ("val.tar", tar_of(self.classes[6:]))])

    def shards(self):
        def samples(labels, suffix=".cls", dot=""):
            return [entry for i, (image, label) in enumerate(zip(self.images, labels))
                    for entry in ((f"{i:04}{dot}.jpg", image), (f"{i:04}{dot}{suffix}", str(label).encode()))]
        self.add_file("shard_names", "a.tar", tar_of(samples(self.labels)))
        self.add_file("shard_numbers", "a.tar", tar_of(samples(self.numbers)))
        self.add_file("shard_from_1", "a.tar", tar_of(samples([number + 1 for number in self.numbers])))
        self.add_file("shard_sparse", "a.tar", tar_of(samples([5, 2, 2, 9] * 3)))
        self.add_file("shard_dots", "a.tar", tar_of(samples(self.labels, dot=".x")))
        self.add_file("shard_json", "a.tar", tar_of(samples([json.dumps({"label": label}) for label in self.labels], ".json")))
        self.add_file("shard_text", "a.tar", tar_of(samples(self.labels, ".txt")))
        self.add_file("shard_mixed", "a.tar", tar_of(samples(["cat", 1, "owl"] * 4)))
        self.add_file("shard_two_spellings", "a.tar", tar_of(samples(["1", "01", "2"] * 4)))
        self.add("shards", [("0.tar", tar_of(samples(self.labels)[:12])), ("1.tar", tar_of(samples(self.labels)[12:]))])
        self.add("shards_classes", [("0.tar", tar_of(samples(self.numbers))), ("classes.txt", b"owl\ndog\ncat\n")])

    def records(self):
        record = record_files.record
        numbers = b"".join(record(image=image, label=label) for image, label in zip(self.images, self.numbers))
        self.add_file("tfrecord", "a.tfrecord", numbers)
        self.add_file("tfrecord_texts", "a.tfrecord", b"".join(
            record(image=image, label=number, text=label) for image, number, label in zip(self.images, self.numbers, self.labels)))
        self.add_file("tfrecord_from_1", "a.tfrecord", b"".join(
            record(image=image, label=number + 1) for image, number in zip(self.images, self.numbers)))
        self.add_file("tfrecord_cut", "a.tfrecord", numbers[:-10])
        self.add_file("tfrecord_first_label", "a.tfrecord", numbers, "--first-label", "0")
        self.add("tfrecord_classes", [("a.tfrecord", numbers), ("names.txt", b"owl\ndog\ncat\n")],
                 "--classes", "tfrecord_classes/names.txt", entry="a.tfrecord")
        self.add_file("tfrecord_no_labels", "a.tfrecord", b"".join(record(image=image) for image in self.images))
        self.add("tfrecords", [("a.tfrecord", numbers), ("b.tfrecord", numbers)])

    def lists(self):
        rows, head = self.rows, [("path", "label")]
        sets = [("path", "label", "split")] + [(*row, ("train", "valid")[i % 4 == 0]) for i, row in enumerate(rows)]
        self.add_list("csv", "a.csv", table(head + rows))
        self.add_list("csv_crlf", "a.csv", table(head + rows, end="\r\n"))
        self.add_list("csv_mark", "a.csv", b"\xef\xbb\xbf" + table(head + rows))
        self.add_list("csv_utf16", "a.csv", table(head + rows).decode().encode("utf-16"))
        self.add_list("csv_semicolons", "a.csv", table(head + rows, ";"))
        self.add_list("csv_quotes", "a.csv", table(head + [(f'"{name}"', f'"{label}, a ""b"""') for name, label in rows]))
        self.add_list("csv_other_names", "a.csv", table([("filename", "species")] + rows))
        self.add_list("csv_no_head", "a.csv", table(rows))
        self.add_list("csv_columns", "a.csv", table([("a", "b", "c")] + [(1, *row) for row in rows]),
                      "--columns", "path=b,label=c")
        self.add_list("csv_numbers", "a.csv", table(head + list(zip(self.names, (10, 2, 1) * 4))))
        self.add_list("csv_decimals", "a.csv", table(head + list(zip(self.names, ("0.0", "1.0", "2.0") * 4))))
        self.add_list("csv_zeros", "a.csv", table(head + list(zip(self.names, ("01", "1", "2") * 4))))
        self.add_list("csv_mixed", "a.csv", table(head + list(zip(self.names, ("1", "dog", "2") * 4))))
        self.add_list("csv_split", "a.csv", table(sets))
        self.add_list("csv_split_train", "a.csv", table(sets), "--split-name", "train")
        self.add_list("csv_weights", "a.csv", table([("path", "label", "weight")] + [(*row, i / 4) for i, row in enumerate(rows)]))
        self.add_list("csv_groups", "a.csv", table([("path", "label", "group")] + [(*row, i // 2) for i, row in enumerate(rows)]))
        self.add_list("csv_missing", "a.csv", table(head + rows + [("no.jpg", "cat")]))
        self.add_list("csv_twice", "a.csv", table(head + rows + [rows[0]]))
        self.add_list("csv_two_labels", "a.csv", table(head + rows + [(rows[0][0], "dog")]))
        self.add_list("csv_empty_label", "a.csv", table(head + rows[:-1] + [(rows[-1][0], "")]))
        self.add_list("csv_no_labels", "a.csv", table([("path", "size")] + [(name, 3) for name in self.names]))
        self.add_list("csv_spaces", "a.csv", table(head + [(f" {name} ", f" {label} ") for name, label in rows]))
        self.add_list("csv_several", "a.csv", table(head + [(name, f"{label};dog") for name, label in rows]),
                      "--task", "multi-label")
        self.add("csv_elsewhere", [*[(f"pictures/{name}", data) for name, data in self.flat], ("a.csv", table(head + rows))],
                 "--list-root", "csv_elsewhere/pictures", entry="a.csv")
        self.add_list("tsv", "a.tsv", table(head + rows, "\t"))
        self.add_list("lst", "a.lst", table([(i, f"{i % 3}.000000", name) for i, name in enumerate(self.names)], "\t"))
        self.add_list("plain", "a.txt", table(list(zip(self.names, self.numbers)), " "))
        self.add_list("jsonl", "a.jsonl", lines([{"path": name, "label": label} for name, label in rows]))
        self.add_list("jsonl_numbers", "a.jsonl", lines([{"path": name, "label": i % 3} for i, name in enumerate(self.names)]))
        self.add_list("jsonl_several", "a.jsonl", lines([{"path": name, "label": [label, "dog"]} for name, label in rows]),
                      "--task", "multi-label")
        self.add_list("json", "a.json", json.dumps([{"path": name, "label": label} for name, label in rows]).encode())
        self.add_list("manifest", "a.manifest", lines([
            {"source-ref": name, "kind": i % 3, "kind-metadata": {"class-name": label, "type": "groundtruth/image-classification"}}
            for i, (name, label) in enumerate(rows)]))
        self.add_list("azure", "a.jsonl", lines([{"image_url": name, "label": label} for name, label in rows]))
        self.add_list("label_studio", "a.json", json.dumps([
            {"data": {"image": name}, "annotations": [{"result": [
                {"type": "choices", "from_name": "kind", "value": {"choices": [label]}}]}]} for name, label in rows]).encode())

    def directories(self):
        kind = {"annotation_type": "COCO_classification",
                "categories": [{"id": i, "name": name} for i, name in enumerate(CLASSES)]}
        schema = {"columnAttributes": [{"name": "image", "properties": {"image_ref": "image_info"}},
                                       {"name": "category", "properties": kind}]}
        members = [*self.flat, ("_meta.yaml", b"type: ImageDirectory\nimage_list: images.lst\n"),
                   ("_schema.json", json.dumps(schema).encode()),
                   ("images.lst", lines([{"image_info": {"file_name": name}, "category": label, "id": 3 * i}
                                         for i, (name, label) in enumerate(zip(self.names, self.labels))]))]
        self.add("image_directory", members)
        self.add_file("image_directory_tar", "a.tar", tar_of([(f"top/{name}", data) for name, data in members]))
        self.add("image_directory_cut", members[1:])
        coco = {"images": [{"id": i, "file_name": name} for i, name in enumerate(self.names)],
                "annotations": [{"id": i, "image_id": i, "category_id": 1 + number} for i, number in enumerate(self.numbers)],
                "categories": [{"id": 1 + i, "name": name} for i, name in enumerate(CLASSES)]}
        self.add("coco", [*self.flat, ("labels.json", json.dumps(coco).encode())])
        self.add("coco_list", [*self.flat, ("labels.json", json.dumps(coco).encode())], entry="labels.json")
        self.add("coco_gaps", [*self.flat, ("labels.json", json.dumps(
            coco | {"categories": [*coco["categories"], {"id": 9, "name": "yak"}]}).encode())])
        self.add("coco_two_labels", [*self.flat, ("labels.json", json.dumps(
            coco | {"annotations": [*coco["annotations"], {"id": 99, "image_id": 0, "category_id": 2}]}).encode())])
        self.add("coco_unknown_category", [*self.flat, ("labels.json", json.dumps(
            coco | {"categories": coco["categories"][1:]}).encode())])

    def parquet(self):
        self.add("parquet", self.classes, entry="a.parquet")
        folder, arrow = self.folder / "parquet", os.environ.get("KILN_ARROW_ROOT", str(ROOT / ".deps/arrow"))
        rows = [{"path": str(folder / name), "label": label} for (name, _), label in zip(self.classes, self.labels)]
        made = subprocess.run([sys.executable, "-c", label_lists.PARQUET, folder / "a.parquet"], input=json.dumps(rows),
                              text=True, capture_output=True, env={**os.environ, "PYTHONPATH": arrow})
        if made.returncode != 0:
            del self.sets["parquet"]
            self.skipped.append("parquet: " + made.stderr.strip().splitlines()[-1])

    def make(self):
        for make in (self.folders, self.archives, self.shards, self.records, self.lists, self.directories, self.parquet):
            make()


def call(program, *words, cwd):
    return subprocess.run([program, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)


def numbers_of(value):
    """In place of sentences their numbers."""
    if isinstance(value, str):
        return re.findall(r"\d+", value)
    return [numbers_of(one) for one in value] if isinstance(value, list) else value


def found(program, source, options, folder, out):
    """What a build finds in a data set: name of a fact -> value."""
    shutil.rmtree(out, ignore_errors=True)
    made = call(program, "convert", source, out, *(() if "--task" in options else options), cwd=folder)  # has no --task
    facts = {"convert exit code": made.returncode}
    if made.returncode == 0:
        for name in ("images.lst", "_schema.json"):
            facts[name] = (out / name).read_text(errors="surrogateescape")
        facts["images"] = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest()
                           for path in out.rglob("*") if path.is_file() and not path.name.startswith(("_", "images.lst"))}
    seen = call(program, "inspect", source, "--json", *options, cwd=folder)
    facts["inspect exit code"] = seen.returncode
    for key, value in (json.loads(seen.stdout) if seen.returncode == 0 else {}).items():
        facts[f"inspect {key}"] = numbers_of(value) if key in SENTENCES else value
    return facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", metavar="OLD", help="the program as it was")
    parser.add_argument("new", metavar="NEW", help="the program as it is")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these data sets")
    parser.add_argument("--without", nargs="+", metavar="KEY", default=[], help="fields of inspect that NEW has no more")
    parser.add_argument("--keep", action="store_true", help="keep the data sets, and say where they are")
    arguments = parser.parse_args()
    programs = [shutil.which(str(pathlib.Path(program).resolve())) for program in (arguments.old, arguments.new)]
    if None in programs:
        parser.error("OLD and NEW are programs that can be run")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-data-")).resolve()
    try:
        drawn = call(programs[0], "demo-data", "--output-path", "drawn", "--images", 15, "--classes", 3, "--size", 24,
                     cwd=folder)
        if drawn.returncode != 0:
            raise SystemExit(drawn.stderr)
        images = [path.read_bytes() for path in sorted((folder / "drawn/train").rglob("*.*"))][:12]
        sets = Sets(folder / "sets", images)
        sets.make()
        if unknown := set(arguments.only or ()) - sets.sets.keys():
            parser.error(f"no such data set: {', '.join(sorted(unknown))}")
        num_failed = num_read = num_compared = 0
        for name, (source, options) in sets.sets.items():
            if arguments.only and name not in arguments.only:
                continue
            old, new = (found(program, source, options, folder / "sets", folder / "out") for program in programs)
            gone = {f"inspect {key}" for key in arguments.without}
            differences = [key for key in old if key not in gone and (key not in new or old[key] != new[key])]
            codes = f"{old['convert exit code']} and {old['inspect exit code']}"
            print(f"{'DIFFERS' if differences else 'equal':8} {name:24} exit codes {codes}", flush=True)
            for key in differences:
                print(f"    {name}: {key}: {str(old[key])[:300]}\n        and {str(new.get(key))[:300]}")
            num_failed += bool(differences)
            num_read += old["convert exit code"] == 0
            num_compared += 1
        for reason in sets.skipped:
            print(f"SKIPPED {reason}")
    finally:
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{num_read} of {num_compared} are read by OLD")
    print(f"{num_compared - num_failed} passed, {num_failed} failed")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
