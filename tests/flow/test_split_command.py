"""`kiln split`: what the designer's Split Image Directory gives, groups, copies, and what is refused."""
import collections
import json
import shutil

from flow import SHARED, FlowTest, files_below, kiln, main

GOLDEN = SHARED / "reference/golden"


def rows(folder):
    return [json.loads(line) for line in (folder / "images.lst").read_text().splitlines()]


def classes(folder):
    return collections.Counter(row.get("category") for row in rows(folder))


class SplitCommandTest(FlowTest):
    def split(self, source, *options, train="train", test="test"):
        return kiln("split", "--src-path", source, "--tgt-train-path", self.folder / train, "--tgt-test-path",
                    self.folder / test, *options)

    def done(self, source, *options, **places):
        result = self.split(source, *options, **places)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def assert_nothing_written(self):
        for name in ("train", "test"):
            self.assertEqual(files_below(self.folder / name), {}, name)

    def test_golden_counts_and_files(self):
        if not GOLDEN.is_dir():
            self.skipTest("no golden files")
        source = GOLDEN / "image_directory"
        self.done(source, "--fraction", 0.7)
        lines = (source / "images.lst").read_text().splitlines()
        parted = []
        for name in ("train", "test"):
            ours, theirs = self.folder / name, GOLDEN / f"split_{name}"
            self.assertEqual(classes(ours), classes(theirs))
            for file in ("_meta.yaml", "_schema.json"):
                self.assertEqual((ours / file).read_bytes(), (theirs / file).read_bytes())
            samples = json.loads((ours / "_samples.json").read_text())
            self.assertEqual([sample["id"] for sample in samples], [row["id"] for row in rows(ours)[:3]])
            for row in rows(ours):
                file = row["image_info"]["file_name"]
                self.assertEqual((ours / file).read_bytes(), (source / file).read_bytes())
            parted += (ours / "images.lst").read_text().splitlines()
        self.assertEqual(sorted(parted), sorted(lines))

    def test_every_form_gives_the_same_images(self):
        directory = self.image_directory()
        self.done(directory)
        expected = {name: files_below(self.folder / name / "image") for name in ("train", "test")}
        packed = kiln("pack", self.data / "train", self.folder / "shards")
        self.assertEqual(packed.returncode, 0, packed.stderr)
        for number, source in enumerate((self.data / "train", self.folder / "shards")):
            places = {"train": f"train{number}", "test": f"test{number}"}
            self.done(source, **places)
            for name, place in places.items():
                found = files_below(self.folder / place / "image")
                self.assertEqual(sorted(found.values()), sorted(expected[name].values()))
                self.assertEqual(classes(self.folder / place), classes(self.folder / name))

    def test_a_list_that_names_an_image_twice(self):
        directory = self.image_directory()
        lines = (directory / "images.lst").read_text().splitlines()
        for place, row in ((5, json.loads(lines[0])), (20, json.loads(lines[2]))):
            lines.insert(place, json.dumps({**row, "id": 1000 + place}))
        (directory / "images.lst").write_text("\n".join(lines) + "\n")
        self.done(directory)
        for name in ("train", "test"):
            listed = [row["image_info"]["file_name"] for row in rows(self.folder / name)]
            self.assertEqual(sorted(listed), sorted(f"image/{file}" for file in files_below(self.folder / name / "image")))

    def test_again_and_with_another_seed(self):
        self.done(self.data / "train", "--fraction", 0.5)
        first = files_below(self.folder / "train")
        self.done(self.data / "train", "--fraction", 0.5)  # replaces it
        self.assertEqual(files_below(self.folder / "train"), first)
        self.done(self.data / "train", "--fraction", 0.5, "--random-seed", 7)
        self.assertNotEqual(files_below(self.folder / "train"), first)

    def test_three_parts_train(self):
        result = kiln("split", "--src-path", self.data / "train", "--output-path", self.folder / "all", "--fractions",
                      "0.6,0.2,0.2")
        self.assertEqual(result.returncode, 0, result.stderr)
        sizes = [len(rows(self.folder / "all" / name)) for name in ("train", "valid", "test")]
        self.assertEqual(sizes, [28, 9, 11])
        trained = self.train(train_data_path=self.folder / "all/train", valid_data_path=self.folder / "all/valid")
        self.assertEqual(trained.returncode, 0, trained.stderr)

    def test_groups_copies_and_leaks(self):
        data = self.copy_data().rename(self.folder / "photos")
        originals = sorted(path for path in data.rglob("*") if path.is_file())
        for number, path in enumerate(originals):
            path.rename(path.with_name(f"p{number // 4}_{number}{path.suffix}"))
        self.done(data, "--fraction", 0.5, "--group-by", "(p[0-9]+)_")
        of_group = {}
        everything = files_below(data)
        groups = {content: name.split("/")[1].split("_")[0] for name, content in everything.items()}
        for side in ("train", "test"):
            for content in files_below(self.folder / side / "image").values():
                self.assertEqual(of_group.setdefault(groups[content], side), side)
        path = min(path for path in data.rglob("*") if path.is_file())
        for number in range(24):  # more than half of its class, which a split into halves cannot but cut
            shutil.copy(path, path.with_name(f"copy{number}_{path.name}"))
        leaky = self.split(data, "--fraction", 0.5, "--check-leaks")
        self.assertEqual(leaky.returncode, 1, leaky.stderr)
        leaks = [json.loads(line) for line in leaky.stdout.splitlines()]
        self.assertTrue(any(leak["same_bytes"] for leak in leaks), leaks)
        self.assertTrue(all(leak["train"] and leak["test"] for leak in leaks), leaks)
        self.assertIn("--keep-duplicates-together", leaky.stderr)
        tight = self.split(data, "--fraction", 0.5, "--check-leaks", "--keep-duplicates-together")
        self.assertEqual((tight.returncode, tight.stdout), (0, ""), tight.stderr)
        self.assertEqual(len(rows(self.folder / "train")), 25 + 16)  # the copies, and half of the other classes

    def test_an_image_without_label_and_one_that_is_none(self):
        folder = self.image_directory()
        lines = (folder / "images.lst").read_text().splitlines()
        for number in range(0, 8, 2):
            row = json.loads(lines[number])
            del row["category"]
            lines[number] = json.dumps(row)
        (folder / "images.lst").write_text("\n".join(lines) + "\n")
        (folder / json.loads(lines[1])["image_info"]["file_name"]).write_bytes(b"no image")
        said = self.done(folder, "--fraction", 0.5)
        self.assert_names(said, "1 of 48 files", "1 file ")
        self.assertEqual([classes(self.folder / name)[None] for name in ("train", "test")], [2, 2])

    def test_a_class_that_cannot_be_divided(self):
        data = self.copy_data().rename(self.folder / "photos")
        (data / "lonely").mkdir()
        shutil.copy(next(path for path in data.rglob("*") if path.is_file()), data / "lonely")
        said = self.done(data)
        self.assert_names(said, "class 'lonely'", "image of 'lonely'")
        self.assertEqual(len(rows(self.folder / "train")), 44)  # of 49

    def test_a_class_without_images(self):
        data = self.copy_data().rename(self.folder / "photos")
        names = [path.name for path in sorted(data.iterdir())]
        (data / "empty").mkdir()
        self.assertIn("'empty'", self.done(data))
        (self.folder / "names.txt").write_text("\n".join([*names, "unicorn"]) + "\n")
        self.done(self.data / "train", "--classes", self.folder / "names.txt")
        for side in ("train", "test"):
            self.assertEqual(sorted(classes(self.folder / side)), names)
            self.assertIn("unicorn", (self.folder / side / "_schema.json").read_text())
        for path in (data / names[1]).iterdir():
            path.unlink()
        self.done(data)
        self.assertEqual(sorted(classes(self.folder / "train")), [names[0], names[2]])
        for name in (names[0], names[2]):
            shutil.rmtree(data / name)
        self.assert_refused(self.split(data), 1, "photos")

    def test_a_part_that_lacks_a_class_trains_and_validates(self):
        """The class stays in the list, so that both parts have the same ones."""
        data = self.copy_data().rename(self.folder / "photos")
        (data / "lonely").mkdir()
        shutil.copy(next(path for path in data.rglob("*") if path.is_file()), data / "lonely")
        self.done(data, "--fraction", 0.7)
        lacking, other = sorted(("train", "test"), key=lambda side: classes(self.folder / side)["lonely"])
        self.assertEqual([classes(self.folder / side)["lonely"] for side in (lacking, other)], [0, 1])
        for first, second in ((lacking, other), (other, lacking)):
            trained = self.train(train_data_path=self.folder / first, valid_data_path=self.folder / second, batch_size=8)
            self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)

    def test_leaks_between_two_folders_that_are_there(self):
        train, valid = self.copy_data(), self.copy_data("val")
        exact = sorted(path for path in train.rglob("*") if path.is_file())[3]
        copy = valid / exact.parent.name / ("copy" + exact.suffix)
        copy.write_bytes(exact.read_bytes())
        inspect = ("inspect", train, "--valid-data-path", valid)
        leaky = kiln(*inspect, "--json")
        self.assertEqual(leaky.returncode, 1, leaky.stdout + leaky.stderr)
        report = json.loads(leaky.stdout)
        self.assertEqual((report["images"], report["validation_images"]), (48, 13))
        own = [leak for leak in report["leaks"] if str(exact.relative_to(train)) in leak["train"]]
        self.assertEqual([leak["same_bytes"] for leak in own], [True], report["leaks"])
        self.assertIn(str(copy.relative_to(valid)), own[0]["valid"])
        self.assertIn(str(copy.relative_to(valid)), kiln(*inspect).stdout)
        shards = kiln("pack", valid, self.folder / "shards", "--format", "tfrecord")
        self.assertEqual(shards.returncode, 0, shards.stderr)
        packed = json.loads(kiln(*inspect[:3], self.folder / "shards", "--json").stdout)
        self.assertEqual(len(packed["leaks"]), len(report["leaks"]))
        one, none = self.folder / "one", self.folder / "none"
        for folder, color in ((one, "a"), (none, "b")):
            (folder / color).mkdir(parents=True)
        shutil.copy(exact, one / "a")
        (none / "b/bad.png").write_bytes(b"no image")
        alone = kiln("inspect", one, "--valid-data-path", none, "--json")
        self.assertEqual((alone.returncode, json.loads(alone.stdout)["leaks"]), (0, []), alone.stderr)
        self.assert_refused(kiln("inspect", train, "--valid-data-path", self.folder / "nowhere"), 1, "does not exist")
        self.assert_refused(kiln("inspect", self.untrained, "--valid-data-path", valid), 1, "--valid-data-path is for images")

    def test_what_is_refused_writes_nothing(self):
        folder = self.image_directory()
        self.assert_refused(self.split(folder, "--fraction", 0.99), 1, "must be between 0.0208333 and 0.979167")
        self.assert_refused(self.split(folder, "--group-by", "nothing"), 1, "matches no path")
        self.assert_refused(self.split(self.folder / "missing"), 1, "does not exist")
        self.assert_refused(self.split(folder, test="train"), 2, "is the same folder as")
        self.assert_nothing_written()
        (self.folder / "test").mkdir(exist_ok=True)
        (self.folder / "test/mine.txt").write_text("mine")
        refused = self.split(folder, "--fraction", 0.99)  # both faults at once
        self.assert_refused(refused, 1, "must be between", "mine.txt")
        (self.folder / "test/mine.txt").unlink()
        (folder / rows(folder)[5]["image_info"]["file_name"]).unlink()
        self.assert_refused(self.split(folder), 1, "is missing")
        self.assert_nothing_written()
        one = self.folder / "one"
        (one / "cat").mkdir(parents=True)
        shutil.copy(next(path for path in (self.data / "train").rglob("*") if path.is_file()), one / "cat")
        self.assert_refused(self.split(one), 1, "it has 1 image, too few for 2 parts")
        self.assert_nothing_written()


if __name__ == "__main__":
    main()
