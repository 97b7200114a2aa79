"""What the images of a run say against its accuracy: one picture under two labels, labels that nothing reads, one list for both
inputs, and where reasons for distrust stand. Numbers are those of the cases."""
import html
import json
import re
import shutil

from flow import FlowTest, kiln, main
from forms import FormsTest

LABELS = ("circle", "square", "triangle")


def section(page, name):
    return re.search(f'<section id="{name}">.*?</section>', page, re.DOTALL)[0]


def plain(text):
    """What a reader sees of a page's text."""
    return re.sub("[“”]", "'", html.unescape(re.sub("<[^>]*>|[\u2066-\u2069]", "", text)))


class DataTest(FlowTest):
    def events(self, kind, logs="logs"):
        lines = (self.folder / logs / "metrics.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def doubts(self, logs="logs"):
        return self.events("epoch", logs)[0]["doubts"]

    def trust(self, logs="logs"):
        return section((self.folder / logs / "report.html").read_text(), "trust")

    def assert_doubted(self, result, logs, *words):
        """The first finding of the page and a line of the console's last block have these words; nothing is a tick."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        first = re.search(r'<li class="(\w+)">(.*?)</li>', self.trust(logs), re.DOTALL)
        self.assertEqual(first[1], "warning")
        self.assertNotIn('<li class="good">', self.trust(logs))
        block = result.stdout.split("\nresult\n")[1]
        cautions = [line for line in block.splitlines() if line.startswith("  caution ")]
        for text in (plain(first[2]), "\n".join(cautions), "\n".join(self.doubts(logs))):
            self.assert_names(text, *words)


class Contradictions(DataTest):
    """Case 103: the same bytes under two labels."""

    def setUp(self):
        super().setUp()
        self.train_folder = self.copy_data("train")
        self.label, self.other = sorted(path.name for path in self.train_folder.iterdir())[:2]
        self.pictures = sorted((self.train_folder / self.label).iterdir())
        for picture in self.pictures[:4]:
            shutil.copy(picture, self.train_folder / self.other / f"copy-{picture.name}")
        self.words = (f"'{self.label}/{self.pictures[0].name}' ({self.label}", f"'{self.other}/copy-{self.pictures[0].name}' ({self.other}",
                      "4 ")

    def test_every_way_of_training_tells(self):
        model = {"untrained_model_path": self.untrained, "valid_data_path": self.data / "val"}
        ways = {"frozen": {"freeze": "backbone"}, "shards": {"ranks": 2, "batch_size": 8, "threads": 1},
                "one": {"train_data_path": None, "valid_data_path": None, "data_path": self.train_folder},
                "folds": {"train_data_path": None, "valid_data_path": None, "data_path": self.train_folder, "freeze": "backbone",
                          "folds": 3}}
        for name, options in ways.items():
            with self.subTest(name):
                result = self.train(**{**model, "train_data_path": self.train_folder, "log_path": self.folder / name,
                                       "trained_model_path": self.folder / f"{name}-model", **options})
                self.assert_doubted(result, name, *self.words)
                self.assertEqual(len(self.doubts(name)), 1)

    def test_a_copy_in_the_other_set_is_told_with_both_labels(self):
        valid = self.copy_data("val")
        for picture in self.pictures[4:6]:
            shutil.copy(picture, valid / self.other / f"copy-{picture.name}")
        result = self.train(train_data_path=self.data / "train", valid_data_path=valid)
        self.assert_doubted(result, "logs", f"'{self.label}/{self.pictures[4].name}' ({self.label}, training)",
                            f"'{self.other}/copy-{self.pictures[4].name}' ({self.other}, validation)", "2 ")
        self.assertEqual(len(self.doubts()), 2)
        self.assertEqual(self.events("epoch")[0]["validation_images_in_training"], 2)

    def test_other_commands_tell(self):
        for words in (["split", self.train_folder, "--output-path", self.folder / "parts"],
                      ["pack", "--input-path", self.train_folder, "--output-path", self.folder / "shards"],
                      ["inspect", self.train_folder, "--check"],
                      ["inspect", self.train_folder, "--valid-data-path", self.data / "val"],
                      ["evaluate", "--trained-model-path", self.trained_model, "--data-path", self.train_folder, "--output-path",
                       self.folder / "evaluation"]):
            with self.subTest(words[0]):
                result = kiln(*words)
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assert_names(result.stdout + result.stderr, *self.words)
        found = json.loads((self.folder / "evaluation/evaluation.json").read_text())["models"][0]
        self.assert_names(" ".join(found["doubts"]), *self.words)
        trust = section((self.folder / "evaluation/evaluation.html").read_text(), "trust")
        self.assert_names(trust, f"copy-{self.pictures[0].name}")


class UnreadLabels(FormsTest, DataTest):
    """Case 104: files of the images' own names, beside folders that were taken for classes."""

    def parts(self, folders, suffix, every=1):
        """Members of these folders, and a text beside every nth image."""
        members = []
        for i, picture in enumerate(self.pictures[:12]):
            stem = f"{folders[i % len(folders)]}/{i}"
            members.append((stem + self.suffix, picture))
            if suffix and i % every == 0:
                members.append((stem + suffix, b"<name>cat</name>"))
        return sorted(members)

    def notes(self, path, *options):
        found = kiln("inspect", path, "--json", *options)
        self.assertEqual(found.returncode, 0, found.stderr)
        return "\n".join(json.loads(found.stdout)["notes"])

    def assert_said(self, text, *words):
        """One line has all of these words."""
        self.assertTrue(any(all(word in line for word in words) for line in text.splitlines()), text)

    def test_every_form_and_command_says_so(self):
        for suffix, folders in ((".txt", ["100", "200"]), (".json", ["a", "b"]), (".xml", ["00000", "00001"])):
            members = self.parts(folders, suffix)
            for path in self.forms(members) if suffix == ".txt" else [self.write_zip("a.zip", members)]:
                with self.subTest(suffix=suffix, path=path.name):
                    self.assert_said(self.notes(path), f"/0{suffix}'", f"'{folders[1]}'")
            shutil.rmtree(self.folder / "folder", ignore_errors=True)
        path = self.write_folder("folder", self.parts(LABELS[:2], ".txt"))
        for words in (["convert", path, self.folder / "out"],
                      ["split", path, "--output-path", self.folder / "parts"],
                      ["evaluate", "--trained-model-path", self.trained_model, "--data-path", path, "--output-path", self.folder / "e"]):
            result = kiln(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_said(result.stdout + result.stderr, "/0.txt'", f"'{LABELS[1]}'")

    def test_a_few_texts_are_other_files(self):
        self.assertNotIn("label", self.notes(self.write_folder("few", self.parts(["a", "b"], ".txt", every=3))))

    def test_labels_of_yolo(self):
        images = [(f"images/{name}", picture) for name, picture in self.parts(["a", "b"], None)]
        labels = [(name.replace("images/", "labels/").replace(self.suffix, ".txt"), b"0 0.5 0.5 1 1\n") for name, _ in images]
        folder = self.write_folder("yolo", images + labels)
        self.assert_names(self.notes(folder / "images"), "'a/0.txt'")

    def test_numbers_and_dates_are_refused_unless_they_are_named(self):
        classes = self.folder / "classes"
        for number, (folders, suffix, code) in enumerate([
                (["00000", "00001", "00002"], ".txt", 1), (["9", "10"], ".json", 1), (["2024-01-01", "2024-02-11"], ".xml", 1),
                (["20240101", "20240211"], ".xml", 1), (["00000", "00001"], None, 0), (["100", "200"], ".txt", 0),
                (["cat", "dog"], ".txt", 0)]):
            with self.subTest(folders=folders, suffix=suffix):
                folder = self.write_folder(f"parts-{number}", self.parts(folders, suffix))
                result = kiln("pack", "--input-path", folder, "--output-path", self.folder / f"shards-{number}")
                self.assertEqual(result.returncode, code, result.stderr)
                if code == 0:
                    continue
                self.assert_names(result.stderr, "--classes", folders[1], f"{suffix}'")
                classes.write_text("\n".join(sorted(folders)) + "\n")
                named = kiln("pack", "--input-path", folder, "--output-path", self.folder / f"shards-{number}", "--classes", classes)
                self.assertEqual(named.returncode, 0, named.stderr)


class OneList(DataTest):
    """Case 105: one list with a column for the sets, for both inputs."""

    def setUp(self):
        super().setUp()
        pictures = sorted((self.data / "train").glob("*/*"))
        self.rows = [(str(path), path.parent.name, "valid" if i % 4 == 0 else "train") for i, path in enumerate(pictures)]
        self.list = self.table("list.csv", self.rows)

    def table(self, name, rows, header="path,label,split"):
        path = self.folder / name
        path.write_text(header + "\n" + "".join(",".join(row) + "\n" for row in rows))
        return path

    def test_its_sets_share_no_image(self):
        result = self.train(train_data_path=self.list, valid_data_path=self.list)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.doubts(), [])
        found = kiln("inspect", self.list, "--valid-data-path", self.list, "--json")
        self.assertEqual(found.returncode, 0, found.stdout)
        report = json.loads(found.stdout)
        count = sum(row[2] == "valid" for row in self.rows)
        self.assertEqual([report["leaks"], report["images"], report["validation_images"]], [[], len(self.rows) - count, count])
        self.assertEqual(json.loads(kiln("inspect", self.list, "--json").stdout)["sets"],
                         {"train": len(self.rows) - count, "valid": count})

    def test_images_of_both_inputs_are_counted(self):
        rows = [row[:2] for row in self.rows]
        one, other = self.table("one.csv", rows[::2] + rows[1:9:2], "path,label"), self.table("other.csv", rows[1::2], "path,label")
        self.assert_doubted(self.train(train_data_path=one, valid_data_path=other), "logs", f"4 of {len(rows) // 2} ")
        self.assertEqual(len(self.doubts()), 1)

    def test_weights_of_zero(self):
        rows = [(*row[:2], "0") for row in self.rows]
        for count, is_told in ((len(rows), True), (len(rows) - 1, False)):
            path = self.table("weights.csv", [(*row[:2], "0") for row in rows[:count]] + [(*row[:2], "1") for row in rows[count:]],
                              "path,label,weight")
            found = json.loads(kiln("inspect", path, "--json").stdout)
            self.assertEqual(any("weight" in note for note in found["notes"]), is_told)


class Distrust(DataTest):
    """Reasons for distrust stand where trust is asked for, before anything good."""

    def test_weights_that_know_the_images(self):
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=self.trained_model, train_data_path=None,
                            valid_data_path=None, data_path=self.data / "train", freeze="backbone", folds=3)
        self.assert_doubted(result, "logs", str(len(list((self.data / "train").glob("*/*")))))
        lines = result.stdout.splitlines()
        self.assertGreater(len(lines) - 1, max(i for i, line in enumerate(lines) if line.startswith("  caution ")))

    def test_an_audit_by_weights_that_know_the_labels(self):
        result = kiln("audit", self.data / "train", "--trained-model-path", self.trained_model, "--output-path", self.folder / "audit")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = (self.folder / "audit/audit.html").read_text()
        self.assertNotIn('<section id="noise">', page)
        self.assertNotIn('<li class="good">', section(page, "trust"))


if __name__ == "__main__":
    main()
