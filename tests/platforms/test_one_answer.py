"""From folders of photos to the same answer everywhere: train, score, export, ONNX Runtime, and `kiln serve` by each contract,
for each way in which an image of another shape becomes the input (--fit)."""
import base64
import csv
import io
import itertools
import json
import os
import pathlib
import shutil
import sys
import tempfile

from platforms import ROOT, main

from flow import FlowTest, kiln
from serving import Server

PACKAGES = os.environ.get("KILN_ONNX_PACKAGES", str(ROOT / ".deps/onnx"))
CLIENTS = os.environ.get("KILN_SERVING_CLIENTS", str(ROOT / ".deps/serving"))
PILLOW = os.environ.get("KILN_PARITY_PACKAGES", str(ROOT / ".deps/parity"))
for folder in (CLIENTS, PACKAGES, PILLOW):
    if not os.path.isdir(folder):
        print(f"SKIPPED: {folder} is not there; environment/install.sh makes it")
        sys.exit(77)
    sys.path.append(folder)

import numpy  # noqa: E402
import onnxruntime  # noqa: E402
import tritonclient.http as triton  # noqa: E402
from PIL import Image  # noqa: E402

RESIZED = 5e-3  # ONNX's resize rounds one value in a thousand otherwise
SERVED = 1e-6  # numbers of a CSV file and of JSON
FITS = {"crop": {}, "stretch": {"resize_short_side": None, "fit": "stretch"},
        "pad": {"resize_short_side": None, "fit": "pad", "fill": [128, 128, 128]}}
SHAPES = [(80, 60), (30, 120), (120, 30), (1, 900), (900, 1)]


class OneAnswerTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        model, photos = pathlib.Path(folder, "crop"), pathlib.Path(folder, "photos")
        cls.run_kiln("demo-data", photos, "--images", 120, "--size", 50)
        cls.run_kiln("train", photos / "train", photos / "val", "--trained-model-path", model, "--log-path",
                     pathlib.Path(folder, "logs"), "--epochs", 6, "--learning-rate", .01, "--device", "cpu", "--image-size", 48)
        how = json.loads((model / "preprocessing.json").read_text())
        cls.shape_photos(photos / "val", photos / "shapes")
        cls.models, cls.expected, answers = {}, {}, set()
        for fit, keys in FITS.items():
            cls.models[fit] = pathlib.Path(folder, fit)
            if fit != "crop":
                shutil.copytree(model, cls.models[fit])
                (cls.models[fit] / "preprocessing.json").write_text(json.dumps({**how, **keys}))
            scores = pathlib.Path(folder, "scores.csv")
            cls.run_kiln("score", "--trained-model-path", cls.models[fit], "--data-path", photos / "shapes", "--output-path",
                         scores, "--all-classes", "--device", "cpu", "--batch-size", 1, "--threads", 2)
            with open(scores, newline="") as file:
                rows = list(csv.DictReader(file))
            assert len({row["label"] for row in rows}) > 1, rows
            cls.classes = [name[len("probability_"):] for name in rows[0] if name.startswith("probability_")]
            cls.files = [(photos / "shapes" / row["path"]).read_bytes() for row in rows]
            cls.expected[fit] = [(row["label"], [float(row["probability_" + name]) for name in cls.classes]) for row in rows]
            answers.add(str(cls.expected[fit]))
        assert len(answers) == len(FITS), answers

    @staticmethod
    def shape_photos(photos, folder):
        """As they are, and as pictures of other shapes."""
        folder.mkdir()
        for number, photo in enumerate(sorted(photos.rglob("*.*"))):
            image = Image.open(photo).convert("RGB")
            if number % 2:
                image = image.resize(SHAPES[number // 2 % len(SHAPES)])
            image.save(folder / f"{number:03}.png")

    @staticmethod
    def run_kiln(*words):
        done = kiln(*words)
        assert done.returncode == 0, done.stderr

    def assert_answers(self, fit, answers, limit=SERVED):
        """(label, probabilities) of each photo."""
        self.assertEqual(len(answers), len(self.files))
        for (label, probabilities), (wanted, scored) in zip(answers, self.expected[fit]):
            self.assertLessEqual(numpy.abs(numpy.subtract(probabilities, scored)).max(), limit)
            second, first = sorted(scored)[-2:]
            if first - second > 2 * limit:
                self.assertEqual(label, wanted)

    def assert_rows(self, fit, rows):
        self.assert_answers(fit, [(row["label"], [row["probability_" + name] for name in self.classes]) for row in rows])

    def test_onnx_runtime(self):
        for fit, model in self.models.items():
            with self.subTest(fit):
                self.assert_onnx(fit, model)

    def assert_onnx(self, fit, model):
        output = self.folder / f"{fit}.onnx"
        self.run_kiln("export", "--trained-model-path", model, "--format", "onnx", "--output-path", output)
        session = onnxruntime.InferenceSession(str(output), providers=["CPUExecutionProvider"])
        labels = json.loads(session.get_modelmeta().custom_metadata_map["labels"])
        answers = []
        for photo in self.files:
            pixels = numpy.asarray(Image.open(io.BytesIO(photo)).convert("RGB"))[None]
            probabilities = session.run(["probabilities"], {"image": pixels})[0][0]
            answers.append((labels[int(probabilities.argmax())], probabilities))
        self.assert_answers(fit, answers, RESIZED)

    def test_served_by_each_contract(self):
        """A server takes the contract of its platform from the environment."""
        texts = [base64.b64encode(photo).decode() for photo in self.files]

        def one_by_one(path, **headers):
            return lambda server: [server.json("POST", path, photo, **headers)[1] for photo in self.files]

        def instances(server):
            return server.json("POST", "/vertex", {"instances": [{"b64": text} for text in texts]})[1]["predictions"]
        contracts = {
            "own": ({}, one_by_one("/predict")),
            "sagemaker": ({"SAGEMAKER_BASE_DIR": str(self.folder / "ml")}, one_by_one("/invocations", Content_Type="image/png")),
            "azure": ({"AZUREML_MODEL_DIR": "."}, one_by_one("/score")),
            "vertex": ({"AIP_HTTP_PORT": "8080", "AIP_PREDICT_ROUTE": "/vertex", "AIP_HEALTH_ROUTE": "/health"}, instances)}
        for (name, (environment, ask)), (fit, model) in itertools.product(contracts.items(), self.models.items()):
            with self.subTest(contract=name, fit=fit):
                server = Server(self, "--trained-model-path", model, "--max-batch", 1, environment=environment)
                self.assert_rows(fit, ask(server))
                self.assert_open_inference(fit, server)
                server.process.terminate()
                self.assertEqual(server.process.wait(30), 0)

    def assert_open_inference(self, fit, server):
        client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
        self.addCleanup(client.close)
        images = triton.InferInput("image", [len(self.files)], "BYTES")
        images.set_data_from_numpy(numpy.array(self.files, dtype=object), binary_data=True)
        answer = client.infer(client.get_server_metadata()["name"], [images])
        self.assert_answers(fit, list(zip([label.decode() for label in answer.as_numpy("label")], answer.as_numpy("probabilities"))))


if __name__ == "__main__":
    main()
