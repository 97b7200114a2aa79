"""--data-path: one folder of images, split by training itself."""
import csv
import json
import shutil

from flow import FlowTest, main


class DataPathTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.photos = self.copy_data()  # 48 images of 3 classes

    def split(self, **options):
        return self.train(**{"train_data_path": None, "valid_data_path": None, "data_path": self.photos, "batch_size": 16,
                             **options})

    def rows(self):
        with open(self.folder / "logs/split.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def sides(self):
        return {row["path"]: row["set"] for row in self.rows()}

    def assert_trained(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        shutil.rmtree(self.folder / "model")

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


class SplitTest(DataPathTest):
    def test_a_split_is_written_and_comes_back(self):
        result = self.split()
        self.assertNotIn("the same", result.stdout)
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        self.assertEqual([(count["train"], count["valid"]) for count in data["counts"].values()], [(13, 3)] * 3)
        self.assert_trained(result)
        before = self.rows()
        self.assertEqual(list(before[0]), ["path", "label", "set", "group"])
        self.assertEqual({row["path"] for row in before},
                         {str(path.relative_to(self.photos)) for path in self.photos.rglob("*.*")})
        kept = shutil.copy(self.folder / "logs/split.csv", self.folder / "kept.csv")
        self.assert_trained(self.split(random_seed=2, valid_fraction=0.5))
        self.assertNotEqual(self.rows(), before)
        result = self.split(split=kept, random_seed=2)
        self.assert_trained(result)
        self.assertEqual([(row["path"], row["set"]) for row in self.rows()], [(row["path"], row["set"]) for row in before])

    def test_every_form_and_rank_splits_alike(self):
        self.assert_trained(self.split())
        before = self.sides()
        coco = self.write_coco()
        self.assert_trained(self.split(data_path=coco))
        self.assertEqual(self.sides(), before)
        self.assert_trained(self.split(ranks=2, batch_size=8))
        self.assertEqual(self.sides(), before)
        archive = shutil.make_archive(str(self.folder / "photos"), "gztar", self.photos)
        self.assert_trained(self.split(data_path=archive))
        self.assertEqual(set(self.sides().values()), {"train", "valid"})

    def test_copies_and_groups_stay_together(self):
        first = sorted(self.photos.rglob("*.*"))[0]
        for number in range(3):
            shutil.copy(first, first.with_name(f"copy{number}{first.suffix}"))
        result = self.split()
        self.assertIn("of duplicates kept together", result.stdout)
        self.assert_trained(result)
        copies = [row for row in self.rows() if "copy" in row["path"] or row["path"].endswith("/" + first.name)
                  and row["path"].startswith(first.parent.name)]
        self.assertEqual(len(copies), 4)
        self.assertEqual(len({row["group"] for row in copies}), 1)
        self.assertEqual(len({row["set"] for row in copies}), 1)
        self.assert_trained(self.split(group_by=r"/00(\d)"))  # across classes
        rows = [row for row in self.rows() if "copy" not in row["path"]]
        by_digit = {}
        for row in rows:
            by_digit.setdefault(row["path"].split("/")[1][2], set()).add(row["set"])
        self.assertTrue(all(len(sets) == 1 for sets in by_digit.values()), by_digit)

    def test_labels_are_corrected(self):
        names = sorted(str(path.relative_to(self.photos)) for path in self.photos.rglob("*.*"))
        other = next(name for name in names if name.split("/")[0] != names[0].split("/")[0])
        labels = self.write("labels.csv", f"path,label\n{names[0]},{other.split('/')[0]}\n{names[1]},\n{names[2]},new\n"
                                          f"{names[3]},new\n")
        result = self.split(labels=labels)
        self.assert_names(result.stdout, "3 labels", "1 image ", "'new'")
        self.assertIn(",new", (self.folder / "model/index_to_label.csv").read_text())
        self.assert_trained(result)
        found = {row["path"]: row["label"] for row in self.rows()}
        self.assertEqual((found[names[0]], found[names[2]], names[1] in found), (other.split("/")[0], "new", False))

    def test_a_run_that_goes_on_has_the_same_split(self):
        options = {"checkpoint_path": self.folder / "checkpoints", "checkpoint_every": "1epoch"}
        self.assert_trained(self.split(**options))
        result = self.split(epochs=2, valid_fraction=0.4, **options)
        self.assert_fails(result, 1, 2000, "--valid-fraction")
        before = self.sides()
        self.assert_trained(self.split(epochs=2, **options))
        self.assertEqual(self.sides(), before)


class FaultTest(DataPathTest):
    def test_faults_of_the_command_line(self):
        self.assert_fails(self.split(train_data_path=self.photos), 2, 2, "--train-data-path and --data-path are both given")
        self.assert_fails(self.split(data_path=None), 2, 2, "--train-data-path DIR is missing", "or --data-path")
        self.assert_fails(self.split(valid_fraction=1), 1, 8, "--valid-fraction is 1")
        self.assert_fails(self.split(group_by="("), 2, 2, "--group-by '('")
        self.assert_fails(self.split(shard_by="none"), 2, 2, "--data-path cannot be used with --shard-by none")

    def test_faults_of_the_images(self):
        one = next(self.photos.iterdir())
        self.assert_fails(self.split(group_by=r"\."), 1, 18, "one group of images by --group-by")
        alone = self.folder / "alone"
        shutil.copytree(one, alone / one.name)
        self.assert_fails(self.split(data_path=alone), 1, 18, "one class")
        few = self.folder / "few"
        for folder in self.photos.iterdir():
            (few / folder.name).mkdir(parents=True)
            shutil.copy(sorted(folder.iterdir())[0], few / folder.name)
        self.assert_fails(self.split(data_path=few), 1, 18, "only one image")
        self.assertFalse((self.folder / "logs/split.csv").exists())

    def test_faults_of_the_files(self):
        name = next(path for path in self.photos.rglob("*.*")).relative_to(self.photos)
        labels = self.write("labels.csv", f"path,label\nnowhere.jpg,cat\n{name},a\n{name},b\n")
        split = self.write("split.csv", f"path,set\n{name},test\n")
        self.assert_fails(self.split(labels=labels, split=split), 1, 2000, "labels.csv", "nowhere.jpg", "more than one label",
                          "(lines 3 and 4)",
                          "split.csv", "'test' (line 2)", "lacks 47 of the 48 images")
        labels.write_text("path;label\n")
        self.assert_fails(self.split(labels=labels), 1, 2000, "its first line is 'path;label'")
        self.assert_fails(self.split(split=self.folder / "nowhere.csv"), 1, 2000, "nowhere.csv")


if __name__ == "__main__":
    main()
