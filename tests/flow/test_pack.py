"""`kiln pack`: shards that train as their source does, and what they look like."""
import json
import shutil
import tarfile

from flow import FlowTest, files_below, kiln, main


class PackTest(FlowTest):
    def pack(self, *options, source=None, target="shards"):
        return kiln("pack", "--input-path", source or self.data / "train", "--output-path", self.folder / target, *options)

    def packed(self, *options, **places):
        result = self.pack(*options, **places)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def shards(self, target="shards"):
        """By shard: (label, bytes) of its images in order."""
        shards = {}
        for path in sorted((self.folder / target).glob("*.tar")):
            with tarfile.open(path) as archive:
                members = [(member.name, archive.extractfile(member).read()) for member in archive]
            images, classes = members[0::2], members[1::2]
            self.assertEqual([name.split(".")[0] for name, _ in images], [name.split(".")[0] for name, _ in classes])
            shards[path.name] = [(int(label), content) for (_, content), (_, label) in zip(images, classes)]
        return shards

    def train_to_model(self, data, **options):
        result = self.train(train_data_path=data, epochs=2, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = json.loads((self.folder / "model/training.json").read_text())
        return (self.folder / "model/model").read_bytes(), [epoch["train_loss"] for epoch in training["epochs"]], result.stdout

    def test_shards_train_to_the_bits_of_their_source(self):
        self.packed()
        model, losses, _ = self.train_to_model(self.data / "train")
        packed_model, packed_losses, _ = self.train_to_model(self.folder / "shards")
        self.assertEqual(packed_losses, losses)
        self.assertEqual(packed_model, model)

    def test_names_and_classes(self):
        self.packed()
        self.assertEqual(set(files_below(self.folder / "shards")), {"train-000000.tar", "classes.txt"})
        names = sorted(path.name for path in (self.data / "train").iterdir())
        self.assertEqual((self.folder / "shards/classes.txt").read_text().split("\n"), names + [""])
        first = files_below(self.folder / "shards")
        self.packed(target="again")
        second = files_below(self.folder / "again")
        self.assertEqual(first["train-000000.tar"], second["train-000000.tar"])

    def test_classes_with_numbers_for_names(self):
        image = next((self.data / "train").glob("*/*")).read_bytes()
        for names in (["0", "1", "10", "2"], ["1", "x"], ["01", "1", "9", "99"]):
            data = self.folder / "-".join(names)
            for count, name in enumerate(names, 1):
                (data / name).mkdir(parents=True)
                for number in range(count):
                    (data / name / f"{number}.png").write_bytes(image)
            self.packed(source=data, target=data.name + "-packed")
            report = json.loads(kiln("inspect", self.folder / (data.name + "-packed"), "--json").stdout)
            self.assertEqual([(entry["name"], entry["images"]) for entry in report["classes"]],
                             [(name, count) for count, name in enumerate(names, 1)])
            labels = [label for shard in self.shards(data.name + "-packed").values() for label, _ in shard]
            self.assertEqual(labels, [id for id in range(len(names)) for _ in range(id + 1)])

    def test_shuffle_and_even_shards(self):
        data = self.folder / "uneven"
        for label, count in (("a", 400), ("b", 100)):
            (data / label).mkdir(parents=True)
            for number in range(count):
                (data / label / f"{number}.png").write_bytes(b"\xff\xd8\xff" + bytes([number % 256]) * 6000)
        self.packed("--shard-mb", 1, "--even-shards", source=data)
        shards = self.shards()
        self.assertGreater(len(shards), 2)
        self.assertEqual(sum(map(len, shards.values())), 500)
        sizes = [len(images) for images in shards.values()]
        self.assertLessEqual(max(sizes) - min(sizes), 1)
        for images in shards.values():
            self.assertAlmostEqual(sum(label for label, _ in images) / len(images), 0.2, delta=0.01)
        self.packed("--shard-mb", 1, "--shuffle", source=data, target="shuffled")
        labels = [label for images in self.shards("shuffled").values() for label, _ in images]
        self.assertEqual(sorted(labels), [0] * 400 + [1] * 100)
        self.assertNotEqual(labels, sorted(labels))
        for path in (self.folder / "shuffled").glob("*.tar"):
            self.assertLessEqual(path.stat().st_size, (1 << 20) + 1024)

    def test_balanced_classes(self):
        data = self.copy_data()
        first, *others = sorted(path for path in data.iterdir())
        for path in sorted(others[0].iterdir())[3:]:
            path.unlink()
        largest = max(len(list(path.iterdir())) for path in data.iterdir())
        said = self.packed("--balance-classes", "--shuffle", source=data)
        labels = [label for images in self.shards().values() for label, _ in images]
        self.assertEqual([labels.count(label) for label in range(3)], [largest] * 3)
        self.assert_names(said, f"{largest - 3} of them", f"{first.name} {largest}, ")
        stored = {content for images in self.shards().values() for _, content in images}
        self.assertEqual(stored, set(files_below(data).values()))

    def test_short_side_reduces_only_larger_images(self):
        self.packed("--short-side", 20)
        inspected = kiln("inspect", self.folder / "shards", "--json")
        self.assertEqual(json.loads(inspected.stdout)["most_common_sizes"], [{"width": 20, "height": 20, "images": 48}])
        self.packed("--short-side", 32, target="same")
        stored = sorted(content for images in self.shards("same").values() for _, content in images)
        self.assertEqual(stored, sorted(files_below(self.data / "train").values()))

    def test_a_damaged_image_is_packed_as_it_is(self):
        data = self.copy_data()
        bad = sorted(path for path in data.rglob("*") if path.is_file())[0]
        bad.write_bytes(damaged := bad.read_bytes()[:20])
        for target, options in (("reduced", ("--short-side", 20)), ("whole", ())):
            said = self.packed(*options, source=data, target=target)
            self.assertIn(f"1 of 48 files cannot be decoded and are packed unchanged: '{bad.relative_to(data)}'", said)
            self.assertIn(damaged, [content for images in self.shards(target).values() for _, content in images])

    def test_inputs_and_outputs_that_are_refused(self):
        self.packed()
        self.assert_refused(self.pack(), 3, "is not empty")
        self.assert_refused(self.pack(source=self.folder / "shards", target="shards/inner"), 2, "is inside")
        plain = self.folder / "plain"
        plain.mkdir()
        shutil.copy(next((self.data / "train").rglob("*.jpg"), next((self.data / "train").rglob("*.png"), None)), plain)
        self.assert_refused(self.pack(source=plain, target="other"), 1, "no labels")

    def test_a_lost_class_list_and_a_lost_shard(self):
        self.packed()
        shards = self.folder / "shards"
        (shards / "classes.txt").unlink()
        report = json.loads(kiln("inspect", shards, "--json").stdout)
        self.assertEqual([entry["name"] for entry in report["classes"]], ["0", "1", "2"])
        (shards / "train-000000.tar").unlink()
        self.assert_refused(kiln("inspect", shards), 1, "shards")


if __name__ == "__main__":
    main()
