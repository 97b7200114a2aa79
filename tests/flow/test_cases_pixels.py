"""Reports of users of other trainers, and files from them, through the real program: pixels."""
import csv
import json
import random
import shutil
import struct
import tarfile

from flow import FlowTest, files_below, kiln, main, noise, png


class Pixels(FlowTest):
    """The same picture everywhere: phones store it in eight orientations."""
    SIZE = 40, 24  # upright, height and width

    def stored(self, rows, orientation):
        """How a camera held so stores the picture."""
        if orientation in (3, 4, 7, 8):
            rows = rows[::-1]
        if orientation in (2, 3, 6, 7):
            rows = [row[::-1] for row in rows]
        return png([list(column) for column in zip(*rows)] if orientation >= 5 else rows, orientation)

    def setUp(self):
        super().setUp()
        draw = random.Random(4)
        height, width = self.SIZE
        for label in "ab":
            folder = self.folder / "photos" / label
            folder.mkdir(parents=True)
            rows = noise(draw, height, width)
            (folder / "0.png").write_bytes(png(rows))
            for orientation in range(1, 9):
                (folder / f"{orientation}.png").write_bytes(self.stored(rows, orientation))
        self.photos = self.folder / "photos"
        self.done("convert", "--input-path", self.photos, "--output-path", self.folder / "images")

    def done(self, *arguments):
        result = kiln(*arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout + result.stderr

    def pictures(self, path, *options):
        """How many different pictures kiln sees in each class."""
        operations, out = self.folder / "operations", self.folder / "changed"
        if not operations.exists():
            self.done("transform", "init", "--output-path", operations)
        shutil.rmtree(out, ignore_errors=True)
        self.done("transform", "apply", "--mode", "For inference", "--input-image-transform-path", operations,
                  "--input-image-dir-path", path, "--output-path", out, *options)
        found = {}
        for line in (out / "images.lst").read_text().splitlines():
            row = json.loads(line)
            data = (out / row["image_info"]["file_name"]).read_bytes()
            self.assertNotIn(b"eXIf", data)
            found.setdefault(row["category"], set()).add(data)
        return [len(found[label]) for label in "ab"]

    def test_every_form_shows_the_same_picture(self):
        """Case 09: turned once, never twice, in every form; an ImageDirectory as the designer sees it, unless it is asked for."""
        packed, small = self.folder / "packed", self.folder / "small"
        self.done("pack", self.photos, packed)
        self.done("pack", self.photos, small, "--short-side", "20")
        with tarfile.open(packed / "photos-000000.tar") as tar:
            stored = {tar.extractfile(member).read() for member in tar if member.name.endswith(".png")}
        self.assertEqual(stored, {path.read_bytes() for path in self.photos.rglob("*.png")})
        self.assertEqual(stored, set(files_below(self.folder / "images/image").values()))
        for path in (self.photos, packed, small):
            with self.subTest(path=path.name):
                self.assertEqual(self.pictures(path), [1, 1])
                turned = json.loads(kiln("inspect", path, "--json").stdout)["turned_images"]
                self.assertEqual(turned, 0 if path == small else 14)
        self.assertEqual(self.pictures(self.photos, "--exif", "ignore"), [8, 8])
        self.assertEqual(self.pictures(self.folder / "images"), [8, 8])
        self.assertEqual(self.pictures(self.folder / "images", "--exif", "apply"), [1, 1])

    def probabilities(self, path):
        """How many different answers the model gives for each class's pictures."""
        self.done("score", "--trained-model-path", self.folder / "model", "--data-path", path,
                  "--output-path", self.folder / "scores.csv", "--raw", "--all-classes")
        with open(self.folder / "scores.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 18)
        return sum(len({row["probability_a"] for row in rows if row["true_label"] == label}) for label in "ab")

    def test_a_model_keeps_what_it_was_trained_on(self):
        """The training images decide for both sets, and the model for all later images, whatever their form."""
        images, model = self.folder / "images", self.folder / "model"
        first = self.train(train_data_path=self.photos, valid_data_path=images, batch_size=6)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertRegex(first.stdout, r"image size: +24x40 \(all images have this size")
        self.assertNotIn("EXIF orientation, which", first.stdout + first.stderr)
        how = json.loads((model / "preprocessing.json").read_text())
        self.assertEqual((how["exif"], how["input_size"]), ("apply", list(self.SIZE)))
        for path in (self.photos, images):
            self.assertEqual(self.probabilities(path), 2)
        del how["exif"]  # as models were before
        (model / "preprocessing.json").write_text(json.dumps({**how, "resize_short_side": 40}))
        self.assertGreater(self.probabilities(self.photos), 2)
        second = self.train(train_data_path=images, valid_data_path=self.photos, batch_size=6, image_size=32)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(second.stdout.count("14 of 18 images"), 2, second.stdout)
        self.assertEqual(json.loads((model / "preprocessing.json").read_text())["exif"], "ignore")
        self.assertGreater(self.probabilities(self.photos), 2)


class Bitmaps(FlowTest):
    """Bitmaps have Pillow's pixels, the same ones every time; sizes fit in memory."""

    @staticmethod
    def bitmap(form, seed):
        """A bitmap of 32 x 32 pixels, and the same picture as PPM."""
        draw = random.Random(seed)
        count = 86 if form == "short" else 256
        colors = [bytes(draw.randrange(256) for _ in range(3)) for _ in range(count)]
        data = bytes(draw.randrange(256) for _ in range(1024))
        pixels = b"".join(colors[index][::-1] if index < count else b"\0\0\0" for index in data)
        header = struct.pack("<IIiHHIIIIII", 40, 32, -32, 1, 8, 0, 1024, 0, 0, count, 0)
        palette = b"".join(color + b"\0" for color in colors)
        if form == "suggested":
            header, palette = struct.pack("<IIiHHIIIIII", 52, 32, -32, 1, 24, 0, 0, 0, 0, 4, 0) + bytes(12), bytes(16)
            data = b"".join(pixels[at:at + 3][::-1] for at in range(0, len(pixels), 3))
        offset = 14 + len(header) + len(palette)
        return (b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + palette + data,
                b"P6 32 32 255\n" + pixels)

    def test_bitmaps_of_every_kind(self):
        """Cases 62 and 11: a palette shorter than its indexes, a suggested palette. The model is that of the same pictures in
        another format. A file of OS/2 is a bad image, by name."""
        models = []
        for kind in range(2):
            data = self.folder / f"data{kind}"
            for number, form in enumerate(("short", "suggested") * 6):
                path = data / "ab"[number % 2] / f"{number}{('.bmp', '.ppm')[kind]}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.bitmap(form, number)[kind])
            result = self.train(train_data_path=data, valid_data_path=data, batch_size=6)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("bad image", result.stderr)
            models.append((self.folder / "model/model.safetensors").read_bytes())
        self.assertEqual(models[0], models[1])
        old = self.folder / "old/a/0.bmp"
        old.parent.mkdir(parents=True)
        old.write_bytes(b"BM" + struct.pack("<IHHI", 29, 0, 0, 26) + struct.pack("<IHHHH", 12, 1, 1, 1, 24) + bytes(3))
        self.assertIn("OS/2", kiln("inspect", old.parent.parent, "--check").stdout)


if __name__ == "__main__":
    main()
