"""`kiln convert`, `kiln demo-data`, and what the program says of itself."""
import json
import shutil

from flow import FlowTest, files_below, kiln, main


class ConvertTest(FlowTest):
    def convert(self, source, target="made"):
        return kiln("convert", "--input-path", source, "--output-path", self.folder / target)

    def test_one_directory_whatever_its_source(self):
        """test_train.py trains what is made."""
        for source in (self.data / "train", self.write_coco()):
            result = self.convert(source)
            self.assertEqual(result.returncode, 0, result.stderr)
            made = files_below(self.folder / "made")
            self.assertLessEqual({"_meta.yaml", "images.lst", "_schema.json", "_samples.json"}, set(made))
            lines = [json.loads(line) for line in made["images.lst"].splitlines()]
            self.assertEqual(len(lines), 48)
            for line, path in zip(lines, sorted((self.data / "train").rglob("*.*"))):
                self.assertEqual(line["category"], path.parent.name)
                self.assertTrue(made[line["image_info"]["file_name"]] == path.read_bytes(), path)

    def test_writes_the_list_as_the_original_does(self):
        source = self.copy_data()
        first = sorted(source.iterdir())[0].rename(source / "Äpfel, reif")
        self.assertEqual(self.convert(source).returncode, 0)
        text = (self.folder / "made/images.lst").read_text(encoding="ascii")
        lines = [json.loads(line) for line in text.splitlines()]
        self.assertEqual(lines[0], {"image_info": {"file_name": "image/0_0.jpg"}, "category": min(
            path.name for path in source.iterdir()), "id": 0})
        self.assertEqual(sum(line["category"] == first.name for line in lines), 16)
        self.assertEqual(self.convert(self.folder / "made", "again").returncode, 0)
        self.assertEqual(files_below(self.folder / "again"), files_below(self.folder / "made"))

    def test_images_without_labels(self):
        plain = self.folder / "plain"
        shutil.copytree(self.data / "train", plain / "deeper/still")
        result = self.convert(plain)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("category", (self.folder / "made/images.lst").read_text())
        self.assertNotIn("annotation_type", (self.folder / "made/_schema.json").read_text())
        self.assert_fails(self.train(train_data_path=self.folder / "made"), 1, 24, "no labels")

    def test_inputs_that_are_refused(self):
        self.assert_refused(self.convert(self.folder / "nowhere"), 1, "nowhere", "does not exist")
        (self.folder / "text").mkdir()
        (self.folder / "text/readme.md").write_text("nothing to see")
        self.assert_refused(self.convert(self.folder / "text"), 1, "text", "no image")
        self.assert_refused(self.convert(self.untrained), 1, "ModelDirectory")
        self.assertFalse((self.folder / "made").exists())

    def test_outputs_that_are_refused(self):
        source = self.copy_data()
        before = files_below(source)
        for target, word in (("train", "same folder"), ("train/inner", "inside"), (".", "contains")):
            with self.subTest(target=target):
                self.assert_refused(self.convert(source, target), 2, "--output-path", word)
        (self.folder / "made").mkdir()
        (self.folder / "made/thesis.tex").write_text("precious")
        self.assert_refused(self.convert(source), 3, "thesis.tex")
        self.assertEqual(files_below(self.folder / "made"), {"thesis.tex": b"precious"})
        self.assertEqual(files_below(source), before)

    def test_an_earlier_output_is_replaced(self):
        source = self.copy_data()
        self.assertEqual(self.convert(source).returncode, 0)
        shutil.rmtree(sorted(source.iterdir())[0])
        result = self.convert(source)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(files_below(self.folder / "made/image")), 32)


class DemoDataTest(FlowTest):
    def draw(self, target, **options):
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        return kiln("demo-data", "--output-path", self.folder / target, *words)

    def test_the_seed_decides_the_bytes(self):
        for target, seed in (("a", 5), ("b", 5), ("c", 6)):
            self.assertEqual(self.draw(target, images=20, random_seed=seed).returncode, 0)
        first, same, other = (files_below(self.folder / target) for target in "abc")
        self.assertEqual(first, same)
        self.assertEqual(set(first), set(other))
        self.assertFalse([name for name in first if first[name] == other[name]])

    def test_counts_and_sizes_are_as_asked(self):
        for images, classes, size in ((2, 1, 2048), (37, 10, 20), (9, 3, 8)):
            with self.subTest(images=images, classes=classes, size=size):
                self.assertEqual(self.draw(f"{images}", images=images, classes=classes, size=size).returncode, 0)
                reports = [json.loads(kiln("inspect", self.folder / f"{images}" / part, "--json", "--check").stdout)
                           for part in ("train", "val")]
                self.assertEqual(sum(report["images"] for report in reports), images)
                for report in reports:
                    self.assertEqual((report["num_classes"], report["bad_images"]), (classes, 0))
                    self.assertEqual([(entry["width"], entry["height"]) for entry in report["most_common_sizes"]],
                                     [(size, size)])

    def test_a_value_out_of_range(self):
        self.assert_refused(self.draw("made", size=7), 1, "--size")
        self.assertFalse((self.folder / "made").exists())

    def test_an_output_that_holds_other_things(self):
        (self.folder / "made").mkdir()
        (self.folder / "made/thesis.tex").write_text("precious")
        self.assert_refused(self.draw("made", images=6), 3, "thesis.tex")
        self.assertEqual(files_below(self.folder / "made"), {"thesis.tex": b"precious"})


class HelpTest(FlowTest):
    def test_without_a_command(self):
        self.assert_refused(kiln(), 2, "train", "init-model", "convert", "demo-data", "inspect", "COMMAND --help")

    def test_help_lists_the_commands(self):
        result = kiln("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        commands = result.stdout.split("Commands:\n")[1].split("\n\n")[0]
        self.assertEqual([line.split()[0] for line in commands.splitlines() if line[2] != " "],
                         ["train", "score", "serve", "evaluate", "audit", "embed", "select", "export", "launch", "tune",
                          "init-model", "convert", "split", "transform", "transform", "pack", "demo-data", "inspect", "report", "compare",
                          "describe"])

    def test_help_of_train(self):
        result = kiln("train", "--help", "all")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        groups = ("Inputs and outputs", "Training", "Images", "Machine", "Reporting")
        self.assert_names(result.stdout, *(f"\n{group}:\n" for group in groups))
        text = " ".join(result.stdout.split())
        self.assert_names(text, "[default 5; range 1 to 1000000; unit: epochs]", "auto|half|imagenet", "[required, or --data-path]",
                          "[default 0.001; range greater than 0, up to 1000]", "[default auto; range auto, 0% to 100%",
                          "[default auto; range auto, or 16 to 4096; unit: pixels]")
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 100)

    def test_version_names_the_components(self):
        result = kiln("--version")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        versions = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
        self.assertEqual(set(versions), {"kiln", "commit", "LibTorch", "CUDA", "cuDNN", "NCCL", "MPI"})
        self.assertTrue(versions["LibTorch"].startswith("2.11.0"))
        self.assertRegex(versions["kiln"], r"^\d+\.\d+\.\d+$")
        for name in ("CUDA", "cuDNN", "NCCL"):
            self.assertRegex(versions[name], r"^(\d+\.\d+(\.\d+)?|not installed)$")
        self.assertRegex(versions["MPI"], r"Open MPI v\d+\.\d+")


if __name__ == "__main__":
    main()
