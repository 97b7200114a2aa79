"""What an answer is worth: how like the training images a picture is, from the features that a model keeps of them."""
import bisect
import csv
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from flow import FlowTest, kiln, main, noise, png, train_on_shapes
from serving import Server
from weight_files import read_safetensors

DEPS = pathlib.Path(__file__).parents[2] / ".deps"
ONNX = os.environ.get("KILN_ONNX_PACKAGES") or str(DEPS / "onnx")
RUN_ONNX = """
import json, sys, numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
pixels = numpy.frombuffer(sys.stdin.buffer.read(), numpy.uint8).reshape(-1, 32, 32, 3)
print(json.dumps([values.tolist() for values in session.run(["probabilities", "alike"], {"image": pixels})]))
"""


def numbers(path):
    """Name -> (shape, numbers)."""
    codes = {"F32": "f", "F16": "e", "I64": "q"}
    return {name: (shape, struct.unpack(f"<{len(data) // struct.calcsize(codes[kind])}{codes[kind]}", data))
            for name, (kind, shape, data) in read_safetensors(path).items()}


def place(row, value):
    """How many of the numbers, which ascend, are smaller."""
    return bisect.bisect_left(row, value)


def npy(path):
    """The rows of a float32 file."""
    data = path.read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length, = struct.unpack_from("<H", data, 8)
    header = eval(data[10:10 + length])  # a literal
    assert header["descr"] == "<f4" and not header["fortran_order"] and (10 + length) % 64 == 0, header
    count, width = header["shape"]
    values = struct.unpack_from(f"<{count * width}f", data, 10 + length)
    return [values[i * width:(i + 1) * width] for i in range(count)]


class AnswersTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-answers-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.images, cls.model, cls.unlike = cls.place / "data", cls.place / "model", cls.place / "unlike"
        kiln("demo-data", "--output-path", cls.images, "--images", 600, "--classes", 3, "--size", 32)
        cls.trained = cls.train(cls.model, "--epochs", 4)
        assert cls.trained.returncode == 0, cls.trained.stdout + cls.trained.stderr
        cls.unlike.mkdir()
        for number in range(8):
            (cls.unlike / f"{number}.png").write_bytes(png(noise(random.Random(number))))

    @classmethod
    def train(cls, model, *words):
        return train_on_shapes(cls.images, model, cls.place / f"logs-{model.name}", *words)

    def rows(self, images, *words, model=None):
        table = self.folder / "scores.csv"
        result = kiln("score", "--trained-model-path", model or self.model, "--data-path", images, "--output-path", table,
                      "--device", "cpu", *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(table, newline="") as file:
            return list(csv.DictReader(file))

    def copy(self, **removed):
        model = self.folder / "copy"
        shutil.copytree(self.model, model)
        for name in removed.values():
            (model / name).unlink()
        return model

    def test_the_last_column_is_what_the_file_says(self):
        """By the formula, from the features of `kiln embed`, in Python."""
        rows = self.rows(self.unlike)
        self.assertEqual(list(rows[0])[-1], "alike")
        features = self.folder / "features.npy"
        self.assertEqual(kiln("embed", self.unlike, "--trained-model-path", self.model, "--output-path", features).returncode, 0)
        known = numbers(self.model / "features.safetensors")
        (num_references, width), references = known["references"]
        (num_rows, count), held_out = known["held_out"]
        self.assertEqual(num_rows, 3)
        of_distance, of_logits, of_both = (held_out[k * count:(k + 1) * count] for k in range(3))
        for one in (of_distance, of_logits, of_both):
            self.assertEqual(list(one), sorted(one))
        stored = read_safetensors(self.model / "model.safetensors")
        weight, bias = (struct.unpack(f"<{len(data) // 4}f", data)
                        for data in (stored["model.fc.weight"][2], stored["model.fc.bias"][2]))
        for row, values in zip(rows, npy(features), strict=True):
            length = math.sqrt(sum(value * value for value in values))
            cosines = sorted(sum(value * other for value, other in zip(values, references[i * width:(i + 1) * width])) / length
                             for i in range(num_references))
            logits = [bias[c] + sum(value * other for value, other in zip(values, weight[c * len(values):(c + 1) * len(values)]))
                      for c in range(len(bias))]
            lack = -math.log(sum(math.exp(logit) for logit in logits))
            places = [max(place(of_distance, 1 - cosines[-5] + slack), place(of_logits, lack + slack))
                      for slack in (-1e-5, 0, 1e-5)]
            alike = [(1 + count - place(of_both, one)) / (1 + count) for one in places]
            self.assertTrue(min(alike) - 1e-6 <= float(row["alike"]) <= max(alike) + 1e-6, (row, alike))
        names = (self.folder / "features.names.csv").read_text().splitlines()
        self.assertEqual(names, ["path", *(row["path"] for row in rows)])

    def test_what_was_held_out_is_like_and_noise_is_not(self):
        held_out = [float(row["alike"]) for row in self.rows(self.images / "val")]
        self.assertAlmostEqual(sum(held_out) / len(held_out), 0.5, delta=0.15)
        self.assertLess(max(float(row["alike"]) for row in self.rows(self.unlike)), 0.1)

    def test_unlike_pictures_are_refused(self):
        rows = self.rows(self.unlike, "--refuse-unlike", "10%")
        self.assertEqual([row["label"] for row in rows], [""] * 8)
        self.assertTrue(all(row["guess"] and row["fault"] and row["confidence"] for row in rows))
        sure = self.rows(self.unlike, "--refuse-unlike", "10%", "--min-confidence", "0.1%")
        self.assertEqual(rows, sure)
        like = self.rows(self.images / "val", "--refuse-unlike", "10%")
        self.assertLess(sum(not row["label"] for row in like) / len(like), 0.2)
        for share in ("0.5%", "0.1%"):
            self.refused("score", self.unlike, "--trained-model-path", self.model, "--refuse-unlike", share,
                         names="--refuse-unlike")

    def refused(self, *words, names, code=1):
        result = kiln(*words, cwd=self.folder)
        self.assert_refused(result, code, names)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)

    def test_server_and_onnx_answer_the_same(self):
        names = sorted(self.unlike.iterdir()) + sorted((self.images / "val").rglob("*.*"))[:6]
        expected = {}
        for folder in (self.unlike, self.images / "val"):
            expected |= {str(folder / row["path"]): row for row in self.rows(folder)}
        server = Server(self, self.model, "--refuse-unlike", "5%")
        for path in names:
            status, answer = server.json("POST", "/predict", path.read_bytes())
            self.assertEqual(status, 200)
            row = expected[str(path)]
            self.assertAlmostEqual(answer["alike"], float(row["alike"]), delta=0.01)
            self.assertEqual(answer["label"] is None, float(row["alike"]) < 0.05)
        self.assertRegex(server.ask("GET", "/metrics")[2].decode(), r"\nkiln_unlike_images_total [1-9]")
        if not os.path.isdir(os.path.join(ONNX, "onnxruntime")):
            self.skipTest(f"no onnxruntime in {ONNX}; run environment/install.sh")
        self.assertEqual(kiln("export", "--trained-model-path", self.model, "--output-path", self.folder / "model.onnx",
                              "--alike", "True").returncode, 0)
        pixels = b"".join(pixel for seed in range(8) for row in noise(random.Random(seed)) for pixel in row)
        result = subprocess.run([sys.executable, "-c", RUN_ONNX, self.folder / "model.onnx"], input=pixels, capture_output=True,
                                env={**os.environ, "PYTHONPATH": f"{DEPS / 'parity'}:{ONNX}"})
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        probabilities, alike = json.loads(result.stdout)
        for number, (shares, like) in enumerate(zip(probabilities, alike, strict=True)):
            row = expected[str(self.unlike / f"{number}.png")]
            self.assertAlmostEqual(max(shares), float(row["confidence"]), delta=1e-4)
            self.assertAlmostEqual(like, float(row["alike"]), delta=1e-4)

    def test_pages_show_the_least_alike(self):
        logs = self.place / f"logs-{self.model.name}"
        galleries = json.loads((logs / "pictures.bin").read_bytes().split(b"\n", 1)[0])["galleries"]
        self.assertEqual([gallery["id"] for gallery in galleries], ["pictures", "unlike"])
        self.assertEqual(len(galleries[1]["images"]), 24)
        self.assertIn('id="unlike"', (logs / "report.html").read_text())
        page = self.folder / "evaluation"
        self.assertEqual(kiln("evaluate", "--trained-model-path", self.model, "--data-path", self.images / "val",
                              "--output-path", page).returncode, 0)
        self.assertIn('id="unlike"', (page / "evaluation.html").read_text())
        with open(page / "answers.csv", newline="") as file:
            self.assertEqual(list(next(csv.DictReader(file)))[-1], "alike")

    def test_models_that_keep_none(self):
        self.assertNotIn("none are kept", self.trained.stdout)
        for model, result in ((self.folder / "hashes", self.train(self.folder / "hashes", "--no-hashes", "True", "--epochs", 1)),
                              (self.folder / "few", self.train(self.folder / "few", "--epochs", 1))):
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertFalse((model / "features.safetensors").exists())
            self.assertEqual(result.stdout.count("none are kept"), 1)
        self.assertNotIn("alike", self.rows(self.unlike, model=self.trained_model)[0])
        self.refused("score", self.unlike, "--trained-model-path", self.trained_model, "--refuse-unlike", "5%",
                     names="features.safetensors")
        self.refused("export", "--trained-model-path", self.trained_model, "--output-path", "m.onnx", "--alike", "True",
                     names="features.safetensors")

    def test_features_of_another_model_and_damaged_ones(self):
        model, file = self.copy(), "features.safetensors"
        other = self.folder / "other"
        self.assertEqual(self.train(other, "--freeze", "backbone", "--weights", self.model).returncode, 0)
        self.assertTrue((other / file).exists())
        good = (model / file).read_bytes()
        bad = [(other / file).read_bytes(), b"", good[:100], good[:-10], good.replace(b"held_out", b"held-out")]
        for data in bad:
            (model / file).write_bytes(data)
            self.refused("score", self.unlike, "--trained-model-path", model, names=file)

    def test_a_head_keeps_the_features_it_was_fitted_to(self):
        one, two = self.folder / "one", self.folder / "two"
        self.assertEqual(self.train(one, "--freeze", "backbone", "--weights", self.model).returncode, 0)
        self.assertEqual(self.train(two, "--freeze", "backbone", "--weights", self.model, "--ranks", 2).returncode, 0)
        one, two = (numbers(model / "features.safetensors") for model in (one, two))
        for name in ("references", "held_out"):
            self.assertEqual(one[name][0], two[name][0])
        self.assertLess(max(abs(a - b) for a, b in zip(one["references"][1], two["references"][1], strict=True)), 1e-3)

    def test_ranks_share_the_pass(self):
        model = self.folder / "ranks"
        result = self.train(model, "--epochs", 4, "--ranks", 2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        own, other = (numbers(place / "features.safetensors") for place in (model, self.model))
        for name in ("references", "held_out"):
            self.assertEqual(own[name][0], other[name][0])

    def test_embed_writes_the_same_numbers_in_each_format(self):
        (broken := self.folder / "images").mkdir()
        for path in self.unlike.iterdir():
            shutil.copy(path, broken)
        (broken / "5.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        words = ["embed", broken, "--trained-model-path", self.model, "--max-bad-images", 1]
        for name in ("a.npy", "a.csv"):
            self.assertEqual(kiln(*words, "--output-path", self.folder / name).returncode, 0)
        with open(self.folder / "a.csv", newline="") as file:
            table = list(csv.reader(file))
        self.assertEqual(table[0][:2], ["path", "feature_0"])
        for line, values in zip(table[1:], npy(self.folder / "a.npy"), strict=True):
            if line[0] == "5.png":
                self.assertEqual(line[1:], [""] * 512)
                self.assertTrue(all(map(math.isnan, values)))
            else:
                self.assertEqual([struct.pack("<f", float(cell)) for cell in line[1:]],
                                 [struct.pack("<f", value) for value in values])
        self.refused(*words[:-1], 0, "--output-path", "b.npy", names="5.png")
        self.assertFalse((self.folder / "b.npy").exists())
        self.refused(*words, "--output-path", "b.txt", names="--output-path", code=2)
        self.refused(*words, names="--output-path", code=2)

    def test_embed_into_a_model(self):
        model, file = self.copy(gone="features.safetensors"), "features.safetensors"
        words = ["embed", "--data-path", self.images / "train", "--valid-data-path", self.images / "val", "--into", model]
        self.assertEqual(kiln(*words).returncode, 0)
        self.assertNotIn("alike", self.rows(self.unlike, model=self.trained_model)[0])
        self.assertLess(max(float(row["alike"]) for row in self.rows(self.unlike, model=model)), 0.1)
        (model / file).unlink()
        kiln("demo-data", "--output-path", self.folder / "others", "--images", 600, "--classes", 3, "--size", 32, "--random-seed", 7)
        self.refused(*words[:2], self.folder / "others/train", *words[3:], names="seen_images.bin")
        for path in (self.images / "val").rglob("*1.*"):
            place = self.folder / "few" / path.parent.name
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)
        self.refused(*words[:4], self.folder / "few", *words[5:], names=file)
        self.assertFalse((model / file).exists())
        self.refused(*words[:3], "--into", model, names="--valid-data-path", code=2)


if __name__ == "__main__":
    main()
