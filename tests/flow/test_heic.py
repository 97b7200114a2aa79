#!/usr/bin/env python3
"""HEIC photos: pixels as libheif's own tool shows them, turned once; damaged ones; trained on, scored and served beside JPEG; and
what is said without libheif. Photos are made by libheif's encoder, or of its tiles (heic_files.py)."""
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import zlib

from flow import FlowTest, another_libheif, kiln, main, noise, png
from heic_files import crop, encoded, heic, mirror, tile_of, turn
from serving import Server

TOOL = os.environ.get("KILN_DECODE_TOOL")
PACKAGES = ("libheif1", "libheif-plugin-libde265", "libheif-freeworld")


def setUpModule():
    missing = [tool for tool in ("heif-enc", "heif-convert") if shutil.which(tool) is None]
    if missing or not TOOL:
        print(f"SKIPPED: {' and '.join(missing) or 'KILN_DECODE_TOOL'} not there (environment/install.sh)", flush=True)
        sys.exit(77)


def retyped(data, depth, color):
    """A PNG whose bytes of pixels mean this."""
    header = data[12:24] + bytes([depth, color]) + data[26:29]
    return data[:12] + header + zlib.crc32(header).to_bytes(4, "big") + data[33:]


class HeicTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.draw = random.Random(3)
        self.tiles = []
        for number in range(4):
            rows = noise(self.draw, 64, 64)
            self.tiles.append(tile_of(self.encode(png(rows), f"tile{number}")))

    def encode(self, data, name, *options):
        return encoded(data, self.folder / name, *options)

    def decode(self, exif="apply", **photos):
        """Name -> (what is wrong, pixels with their size) of these bytes."""
        folder = self.folder / "decoded"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, data in photos.items():
            (folder / name).write_bytes(data)
        (folder / "list").write_text("".join(f"{folder / name}\t0\tcrop\t{exif}\t{folder / name}.ppm\n" for name in photos))
        done = subprocess.run([TOOL, folder / "list"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        self.assertEqual([(pathlib.Path(file).name, orientation) for file, orientation, _ in lines],
                         [(name, "1") for name in photos])
        return {name: (fault, b"" if fault else (folder / f"{name}.ppm").read_bytes())
                for name, (_, _, fault) in zip(photos, lines)}

    def shown(self, **photos):
        """The same by libheif's tool, which writes PNG files."""
        for name, data in photos.items():
            (self.folder / "shown.heic").write_bytes(data)
            png_file = self.folder / "shown.png"
            subprocess.run(["heif-convert", self.folder / "shown.heic", png_file], check=True, capture_output=True)
            photos[name] = png_file.read_bytes()
        return self.decode(**photos)

    def photos(self):
        def rows(height, width, channels=3):
            return [[bytes(self.draw.randrange(256) for _ in range(channels)) for _ in range(width)] for _ in range(height)]
        return {"plain": self.encode(png(rows(48, 64)), "plain"), "odd": self.encode(png(rows(33, 21)), "odd"),
                "large": self.encode(png(rows(150, 130)), "large"),
                "gray": self.encode(retyped(png(rows(48, 70, 1)), 8, 0), "gray"),
                "fine": self.encode(png(rows(48, 64)), "fine", "-L", "-p", "chroma=444"),
                "ten_bits": self.encode(retyped(png(rows(48, 64, 6)), 16, 2), "ten_bits"),
                "alpha": self.encode(retyped(png(rows(48, 64, 4)), 8, 6), "alpha"),
                **{f"turned_{quarters}": heic(self.tiles[:1], [turn(quarters)]) for quarters in range(4)},
                **{f"mirrored_{axis}": heic(self.tiles[:1], [mirror(axis)]) for axis in range(2)},
                "cropped": heic(self.tiles[:1], [crop(40, 30), turn(1)]),
                "cropped_oddly": heic(self.tiles[:1], [crop(41, 31), turn(3), mirror(1)]),
                "grid": heic(self.tiles, size=(100, 90)),
                "turned_grid": heic(self.tiles, [turn(1)], size=(121, 67))}

    def test_pixels_are_those_of_libheif(self):
        photos = self.photos()
        found, expected = self.decode(**photos), self.shown(**photos)
        self.assertEqual({name: fault for name, (fault, _) in found.items() if fault}, {})
        self.assertEqual([name for name in photos if found[name] != expected[name] and name != "ten_bits"], [])
        # Of which its tool writes 16 bits, so that it may round another time.
        farthest = max(abs(a - b) for a, b in zip(found["ten_bits"][1], expected["ten_bits"][1], strict=True))
        self.assertLessEqual(farthest, 2)
        self.assertEqual(len({pixels for _, pixels in found.values()}), len(photos))

    def test_they_are_turned_once(self):
        """The EXIF data repeat the turn, and count for nothing, whatever --exif says."""
        photos = {f"exif_{orientation}": heic(self.tiles[:1], [crop(40, 30), turn(3)], orientation=orientation)
                  for orientation in (1, 3, 6, 8)}
        expected = self.shown(plain=heic(self.tiles[:1], [crop(40, 30), turn(3)]))["plain"]
        for exif in ("apply", "ignore"):
            self.assertEqual(set(self.decode(exif, **photos).values()), {expected})

    def test_damaged_ones_are_faults_or_pictures(self):
        whole = {"plain": self.encode(png(noise(self.draw, 48, 64)), "plain"),
                 "grid": heic(self.tiles, [turn(1)], size=(100, 90)), "with_exif": heic(self.tiles[:1], orientation=6)}
        cut = {f"{name}_{length}": data[:length] + tail for name, data in whole.items()
               for length in range(16, len(data) - 64, 97) for tail in (b"", bytes(len(data) - length))}
        self.assertEqual([name for name, (fault, _) in self.decode(**cut).items() if not fault], [])
        padded = self.decode(**{name: data + bytes(500) for name, data in whole.items()})
        self.assertEqual([name for name, (fault, _) in padded.items() if fault], [])
        damaged = {}
        for number in range(300):
            data = bytearray(self.draw.choice(list(whole.values())))
            for _ in range(self.draw.randrange(1, 5)):
                data[self.draw.randrange(len(data))] = self.draw.randrange(256)
            damaged[f"damaged_{number}"] = bytes(data)
        faults = [fault for fault, _ in self.decode(**damaged).values() if fault]
        self.assertGreater(len(faults), 30)
        self.assertEqual([fault for fault in faults if "header's size differs" in fault], [])
        configuration, size, data = self.tiles[1]
        lost = heic([self.tiles[0], (configuration, size, bytes(len(data))), *self.tiles[2:]], size=(100, 90))
        self.assertTrue(self.decode(lost=lost)["lost"][0])  # and no black tile

    def test_large_ones_are_refused_before_they_are_decoded(self):
        grid = heic(self.tiles, size=(100, 90))
        lying = grid.replace(struct.pack(">HH", 100, 90), struct.pack(">HH", 30000, 30000))  # of what is put together
        self.assertNotEqual(lying, grid)
        found = self.decode(large=heic(self.tiles, size=(30000, 30000)), wide=heic(self.tiles, size=(65535, 4000)), lying=lying)
        for name in ("large", "wide"):
            self.assert_names(found[name][0], "too large", "178956970")
        self.assertTrue(found["lying"][0])

    def mixed(self):
        """The training images, a third of them as HEIC under other names."""
        photos = self.copy_data()
        files = sorted(photos.glob("*/*"))[::3]
        for file, suffix in zip(files, (".heic", ".HEIC", ".heif", ".HIF") * len(files)):
            subprocess.run(["heif-enc", "-o", self.folder / "made.heic", file], check=True, capture_output=True)
            (self.folder / "made.heic").rename(file.with_suffix(suffix))
            file.unlink()
        return photos, [file for file in photos.glob("*/*") if file.suffix.lower() in (".heic", ".heif", ".hif")]

    def test_trained_scored_and_served(self):
        photos, files = self.mixed()
        done = self.train(train_data_path=photos)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("HEIC", done.stdout + done.stderr)
        self.assertEqual(sum(count["train"] for count in self.training()["data"]["counts"].values()), 48)
        self.assertEqual(self.training()["data"].get("bad_images", {}).get("train", 0), 0)
        inspected = json.loads(kiln("inspect", files[0], "--json").stdout)
        self.assertEqual((inspected["kind"], inspected["width"], inspected["state"]), ("HEIC image", 32, "good"))
        scored = kiln("score", "--trained-model-path", self.folder / "model", "--output-path", self.folder / "scores.jsonl",
                      "--device", "cpu", "--batch-size", 1, "--all-classes", *files[:2])
        self.assertEqual(scored.returncode, 0, scored.stderr)
        rows = [json.loads(line) for line in (self.folder / "scores.jsonl").read_text().splitlines()]
        server = Server(self, "--trained-model-path", self.folder / "model", "--max-batch", 1)
        for file, row in zip(files, rows, strict=False):
            status, answer = server.json("POST", "/predict", file.read_bytes(), Content_Type="image/heic")
            self.assertEqual(status, 200, answer)
            self.assertEqual({**row, "path": None}, answer)

    def test_packed_and_converted(self):
        photos, files = self.mixed()
        for words in (("convert", photos, self.folder / "converted"), ("pack", photos, self.folder / "packed"),
                      ("split", photos, "--output-path", self.folder / "split")):
            done = kiln(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("HEIC", done.stdout + done.stderr)
        kept = {path.read_bytes() for path in (self.folder / "converted").rglob("*") if path.is_file()}
        self.assertTrue({file.read_bytes() for file in files} <= kept)

    def test_without_libheif(self):
        """They are counted, named and left out, and the message has packages, and a loop that makes JPEG of them."""
        photos, files = self.mixed()
        with another_libheif():
            done = self.train(train_data_path=photos)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = done.stdout + done.stderr
            self.assert_names(said, "HEIC", f": {len(files)} (", "libheif.so.1", *PACKAGES)
            self.assertTrue(any(file.name in said for file in files), said)
            self.assertEqual(sum(count["train"] for count in self.training()["data"]["counts"].values()), 48 - len(files))
            self.assert_refused(kiln("inspect", files[0]), 1, "HEIC", "libheif.so.1", *PACKAGES)
            server = Server(self, "--trained-model-path", self.folder / "model")
            status, answer = server.json("POST", "/predict", files[0].read_bytes())
            self.assertEqual(status, 422, answer)
            self.assert_names(json.dumps(answer), "HEIC", "libheif.so.1")
        loop = re.search(r"`(for .*?; done)`", said)[1]
        folder = self.folder / "phone"
        folder.mkdir()
        for name in ("a.HEIC", "b c.heic", "d.heif"):
            shutil.copy(files[0], folder / name)
        subprocess.run(["bash", "-ec", loop], cwd=folder, check=True, capture_output=True)
        self.assertEqual(sorted(path.name for path in folder.glob("*.jpg")), ["a.jpg", "b c.jpg", "d.jpg"])

    def test_a_libheif_that_cannot_decode_them(self):
        """As on systems whose libheif has its decoders in packages of their own."""
        codec = pathlib.Path(__file__).parents[2] / "src/data/image/codec_heic.cpp"
        names = re.findall(r'find\("(heif_\w+)"\)', codec.read_text())
        self.assertGreater(len(names), 10)
        photo = self.folder / "a.heic"
        photo.write_bytes(heic(self.tiles[:1]))
        for functions, reason in ((names, "HEVC"), (names[:-1], names[-1])):
            source = "static long options[16];" + "".join(
                f"void* {name}(void) {{ return {'options' if 'options' in name else 0}; }}" for name in functions)
            stand_in = self.folder / "stand_in.so"
            subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", stand_in], input=source, text=True, check=True)
            with another_libheif(stand_in.read_bytes()):
                self.assert_refused(kiln("inspect", photo), 1, "HEIC", reason, *PACKAGES)


if __name__ == "__main__":
    main()
