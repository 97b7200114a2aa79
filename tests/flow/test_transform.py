"""Image transformations: `kiln transform init` and `apply`, and training, scoring and evaluating by one."""
import csv
import json
import shutil
import struct
import zlib

from flow import SHARED, FlowTest, files_below, kiln, main

GOLDEN = SHARED / "reference/golden"
FLIPPED = ("--resize", "True", "--size", "40", "--center-crop", "True", "--crop-size", "32", "--random-horizontal-flip", "True")


def pixels_of(data):
    """Rows of RGB of an 8-bit PNG without interlacing, as bytes."""
    width, height, depth, color = struct.unpack_from(">IIBB", data, 16)
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and (depth, color, data[28]) == (8, 2, 0), data[:32]
    packed, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        packed += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    raw, stride, rows = zlib.decompress(packed), 3 * width, []
    above = bytes(stride)
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, upper, corner = (line[x - 3], above[x], above[x - 3]) if x >= 3 else (0, above[x], 0)
            near = min((left, upper, corner), key=lambda value: (abs(left + upper - corner - value)))
            line[x] = line[x] + (0, left, upper, (left + upper) // 2, near)[kind] & 255
        above = bytes(line)
        rows.append(above)
    return rows


def mirrored(rows):
    return [b"".join(row[x:x + 3] for x in range(len(row) - 3, -1, -3)) for row in rows]


def farthest(rows, others):
    return max(abs(a - b) for row, other in zip(rows, others, strict=True) for a, b in zip(row, other, strict=True))


class TransformTest(FlowTest):
    def init(self, *switches, name="transformation"):
        made = kiln("transform", "init", "--output-path", self.folder / name, *switches)
        self.assertEqual(made.returncode, 0, made.stderr)
        return self.folder / name

    def write(self, name, operations):
        """A TransformationDirectory that an editor has changed."""
        folder = self.init(name=name)
        (folder / "_transforms.json").write_text(json.dumps(operations))
        return folder

    def apply(self, mode, transformation, images, *more, output="applied"):
        return kiln("transform", "apply", "--mode", mode, "--input-image-transform-path", transformation,
                    "--input-image-dir-path", images, "--output-path", self.folder / output, *more)

    def applied(self, *arguments, **places):
        done = self.apply(*arguments, **places)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.folder / places.get("output", "applied")


class FilesTest(TransformTest):
    def need_golden(self):
        if not GOLDEN.exists():
            self.skipTest(f"{GOLDEN} is not there")

    def test_init_is_the_designers_to_the_byte(self):
        self.need_golden()
        self.assertEqual(files_below(self.init(*FLIPPED)), files_below(GOLDEN / "transform_directory"))

    def test_two_switches_are_ignored_with_a_note(self):
        made = kiln("transform", "init", self.folder / "none", "--grayscale", "--random-grayscale", "True")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(json.loads((self.folder / "none/_transforms.json").read_text()), [])
        self.assert_names(made.stdout + made.stderr, "--grayscale", "--random-grayscale")

    def test_inference_is_the_designers(self):
        self.need_golden()
        output = self.applied("For inference", GOLDEN / "transform_directory", GOLDEN / "image_directory")
        ours, theirs = files_below(output), files_below(GOLDEN / "applied_inference")
        self.assertEqual(set(ours), set(theirs))
        for name in ("_meta.yaml", "_schema.json", "images.lst"):
            self.assertEqual(ours[name], theirs[name], name)
        for name in ours:
            if name.endswith(".png"):
                self.assertLessEqual(farthest(pixels_of(ours[name]), pixels_of(theirs[name])), 2, name)
        samples = json.loads(ours["_samples.json"])
        self.assertEqual([sorted(sample) for sample in samples], [["category", "id", "image"]] * 3)

    def test_training_draws_from_the_seed(self):
        images = self.image_directory()
        transformation = self.init("--random-horizontal-flip", "--resize", "--size", "32")
        first = files_below(self.applied("For training", transformation, images, "--loader-threads", 1, output="first"))
        again = files_below(self.applied("For training", transformation, images, "--loader-threads", 3, output="again"))
        self.assertEqual(first, again)
        other = files_below(self.applied("For training", transformation, images, "--random-seed", 7, output="other"))
        plain = files_below(self.applied("For inference", transformation, images, output="plain"))
        self.assertNotEqual(first, other)
        flipped = 0
        for name in (name for name in first if name.endswith(".png")):
            drawn, kept = pixels_of(first[name]), pixels_of(plain[name])
            self.assertIn(drawn, (kept, mirrored(kept)))
            flipped += drawn != kept
        self.assertTrue(8 < flipped < 40, flipped)

    def test_class_folders_and_a_second_run(self):
        transformation = self.init("--resize", "--size", "[20,16]")
        for _ in range(2):
            output = self.applied("For inference", transformation, self.data / "train")
        lines = [json.loads(line) for line in (output / "images.lst").read_text().splitlines()]
        self.assertEqual(len(lines), 48)
        self.assertTrue(all(line["image_info"]["file_name"].endswith(".png") for line in lines))
        rows = pixels_of((output / lines[0]["image_info"]["file_name"]).read_bytes())
        self.assertEqual((len(rows), len(rows[0])), (20, 48))

    def test_jitter_for_inference_is_told(self):
        for operations, count in ([["ColorJitter", 0.5]], 1), ([["ColorJitter", {}], ["RandomGrayscale", {}]], 0):
            told = self.apply("For inference", self.write(f"jitter{count}", operations), self.data / "val", output=f"told{count}")
            self.assertEqual((told.returncode, told.stdout.count("warning: ColorJitter")), (0, count), told.stdout)

    def test_bad_images_end_it_without_output(self):
        data = self.copy_data()
        bad = sorted(data.rglob("*.png") or data.rglob("*.jpg"))[0]
        bad.write_bytes(b"no image")
        failed = self.apply("For inference", self.init("--resize"), data)
        self.assert_refused(failed, 1, str(bad.relative_to(data)), "cannot be transformed")
        self.assertFalse((self.folder / "applied/_meta.yaml").exists())
        shutil.rmtree(self.folder / "transformation")
        failed = self.apply("For training", self.init("--random-crop", "--random-crop-size", "64"), self.data / "train")
        self.assert_refused(failed, 1, "cannot be transformed")
        self.assertFalse((self.folder / "applied/_meta.yaml").exists())

    def test_transformations_that_are_none(self):
        images = self.data / "train"
        for folder, words in ((self.folder / "absent", "does not exist"), (self.untrained, "is of type 'ModelDirectory'"),
                              (self.write("unknown", [["Shrink", 2]]), "Shrink"),
                              (self.write("argument", [["Resize", {"siz": 2}]]), "siz"),
                              (self.write("value", [["Resize", -2]]), "Resize"),
                              (self.write("form", {"Resize": 2}), "_transforms.json")):
            self.assert_refused(self.apply("For training", folder, images), 1, words)
            self.assert_fails(self.train(transform_path=folder), 1, 158, words)

    def test_all_that_is_wrong_with_operations_is_told_together(self):
        """Also of those that the inference form leaves out."""
        folder = self.write("several", [["Resise", 32], ["RandomCrop", {"size": 0}], ["Pad", {"padding": 1, "fil": 3}],
                                        ["FiveCrop", 3], ["Normalize", [[0.5], [0.5]]], ["ToTensor", {}]])
        words = ("operation 1, Resise: unknown operation. Did you mean 'Resize'?", "operation 2, RandomCrop: its size is 0",
                 "operation 3, Pad: ", "'fil'", "FiveCrop: it produces several images", "put ToTensor before it",
                 "ends with a tensor", "several/_transforms.json")
        self.assert_fails(self.train(transform_path=folder), 1, 158, *words)
        for mode in ("For training", "For inference"):
            self.assert_refused(self.apply(mode, folder, self.data / "train"), 1, *words)
        self.assertFalse((self.folder / "applied/_meta.yaml").exists())

    def test_files_of_operations_that_cannot_be_read(self):
        folder = self.init(name="damaged")
        file = folder / "_transforms.json"
        for content in (b"", b'[["Resize", 3]', b'[["\\u001b[31m", 3]]', b'[["Resize", "' + b"9" * 3000 + b'"]]'):
            with self.subTest(content=content[:20]):
                file.write_bytes(content)
                failed = self.train(transform_path=folder)
                self.assert_fails(failed, 1, 158, "_transforms.json")
                self.assertNotIn("\x1b", failed.stderr)
                self.assertLess(len(failed.stderr), 2000)
        file.unlink()
        self.assert_fails(self.train(transform_path=folder), 1, 158, "_transforms.json")

    def test_outputs_that_are_refused(self):
        self.assert_refused(kiln("transform", "init", self.data / "train"), 3, "contains other files")
        failed = self.apply("For training", self.init(), self.data / "train", output="transformation")
        self.assert_refused(failed, 2, "the same folder")
        self.assert_refused(self.apply("For nothing", self.init(), self.data / "train"), 2, "For training or For inference")


class TrainTest(TransformTest):
    def trained(self, **options):
        done = self.train(**options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout, (self.folder / "model/model").read_bytes()

    def preprocessing(self):
        return json.loads((self.folder / "model/preprocessing.json").read_text())

    def scores(self, images):
        done = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", images, "--output-path",
                    self.folder / "scores.csv", "--all-classes", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(self.folder / "scores.csv", newline="") as file:
            return [[value for name, value in row.items() if name not in ("path", "true_label")] for row in csv.DictReader(file)]

    def test_fixed_operations_train_as_their_files_do(self):
        """On the fly or applied before: the same bits, and scores by the inference form that the model keeps."""
        transformation = self.init("--resize", "--size", "40", "--center-crop", "--crop-size", "32", "--pad", "--padding", "2")
        _, model = self.trained(transform_path=transformation)
        kept = self.preprocessing()
        self.assertEqual((kept["version"], kept["input_size"]), (2, [36, 36]))
        self.assertEqual(kept["transforms"], [["Resize", 40], ["CenterCrop", 32], ["Pad", 2]])
        own = self.scores(self.data / "val")
        files = [self.applied("For training", transformation, self.data / part, output=part) for part in ("train", "val")]
        _, of_files = self.trained(train_data_path=files[0], valid_data_path=files[1])
        self.assertEqual(model, of_files)
        self.assertEqual(own, self.scores(files[1]))

    def test_draws_are_new_in_each_epoch_and_repeat(self):
        transformation = self.init("--random-horizontal-flip", "--resize", "--size", "32")
        plain = self.init("--resize", "--size", "32", name="plain")
        models = {}
        for cache, threads in (("auto", 1), ("none", 2), ("bytes", 3), ("decoded", 2)):
            log, models[cache] = self.trained(transform_path=transformation, epochs=2, cache=cache, loader_threads=threads)
        self.assertEqual(len(set(models.values())), 1)
        _, fixed = self.trained(transform_path=plain, epochs=2)
        self.assertNotEqual(fixed, models["auto"])
        self.assertEqual(self.preprocessing()["transforms"], [["Resize", 32]])

    def test_validation_has_the_inference_form(self):
        transformation = self.init("--resize", "--size", "40", "--center-crop", "--crop-size", "36", "--random-crop",
                                   "--random-crop-size", "32")
        self.trained(transform_path=transformation)
        self.assertEqual(self.training()["data"]["image_size"], [32, 32])
        kept = self.preprocessing()
        self.assertEqual((kept["input_size"], kept["transforms"]), ([36, 36], [["Resize", 40], ["CenterCrop", 36]]))
        shown = json.loads(kiln("inspect", self.folder / "model", "--json").stdout)
        self.assertEqual(shown["transforms"], kept["transforms"])
        done = kiln("evaluate", "--trained-model-path", self.folder / "model", "--data-path", self.data / "val", "--output-path",
                    self.folder / "evaluation", "--explain", self.folder / "mistakes", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        refused = self.train(transform_path=transformation, cache="decoded")
        self.assert_refused(refused, 1, "--cache decoded requires")

    def test_sizes_that_differ_are_found_before_training(self):
        data = self.copy_data()
        self.applied("For inference", self.init("--resize", "--size", "[32,40]"), self.data / "val", output="wide")
        shutil.copy(sorted((self.folder / "wide/image").iterdir())[0], sorted(data.iterdir())[0] / "wide.png")
        transformation = self.init("--resize", "--size", "32")
        self.assert_fails(self.train(train_data_path=data, transform_path=transformation), 1, 18, "different sizes", "CenterCrop")
        random_only = self.init("--random-resized-crop", "--random-resized-crop-size", "32")
        self.assert_fails(self.train(train_data_path=data, transform_path=random_only), 1, 18, "Validation", "Random")
        self.trained(transform_path=random_only)  # all images have 32x32
        self.assertEqual(self.preprocessing()["transforms"], [])

    def test_it_stands_in_place_of_other_options(self):
        transformation = self.init("--resize", "--size", "[32,32]")
        for name, value in (("augment", "flip"), ("image_size", 32), ("eval_resize", 40), ("eval_crop", 32)):
            refused = self.train(transform_path=transformation, **{name: value})
            self.assert_fails(refused, 2, 2, "cannot be used with --transform-path")
        self.trained(transform_path=transformation, augment="none", image_size="auto")

    def test_a_run_resumes_with_the_same_operations_alone(self):
        transformation = self.init("--random-horizontal-flip")
        options = {"transform_path": transformation, "checkpoint_path": self.folder / "checkpoints"}
        self.trained(epochs=1, patience=9, **options)
        moved = self.folder / "moved"
        transformation.rename(moved)
        _, resumed = self.trained(epochs=2, patience=9, **{**options, "transform_path": moved})
        self.init("--random-vertical-flip")
        refused = self.train(epochs=3, patience=9, **options)
        self.assert_refused(refused, 1, "--transform-path was RandomHorizontalFlip and is now RandomVerticalFlip")
        refused = self.train(epochs=3, patience=9, checkpoint_path=self.folder / "checkpoints")
        self.assert_refused(refused, 1, "is now not given")

    def test_ranks_take_it_from_rank_0(self):
        transformation = self.init("--random-horizontal-flip", "--resize", "--size", "32")
        log, _ = self.trained(transform_path=transformation, batch_size=8, ranks=2, threads=1)
        self.assertIn("Resize 32, RandomHorizontalFlip", log)
        self.assertEqual(self.preprocessing()["transforms"], [["Resize", 32]])

    def test_a_frozen_backbone_passes_once_where_nothing_is_drawn(self):
        for name, switches, once in (("fixed", (), True), ("drawn", ("--random-horizontal-flip",), False)):
            transformation = self.init("--resize", "--size", "32", *switches, name=name)
            log, _ = self.trained(transform_path=transformation, freeze="backbone")
            self.assertEqual("one pass through the frozen network" in log, once)


if __name__ == "__main__":
    main()
