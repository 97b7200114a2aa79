"""Files of weights as people have them, what is taken of their last layer and why, and torchvision's by a word: cases 116, 121
and 122, rows C1, C5 and C9 of what an attack found, and a name of `kiln export` that means other contents."""
import array
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile
import types
import unittest.mock
import zipfile

from fetch_server import FileServer, Proxy, make_authority
from flow import FlowTest, kiln, main
from weight_files import Tensor, read_zip, torchvision_names, write_safetensors, write_zip

TORCHVISIONS = "resnet18-f37072fd.pth"
# The last 12 bytes of a resnet18 of zeros with these has a SHA-256 that begins as that name says; found by trying.
ENDING = bytes.fromhex("9e2a11005b00000000000000")


def rows_of(folder):
    """The rows of the last layer's weight."""
    tensor = read_zip(folder / "model")["model.fc.weight"]
    values = array.array("f", tensor.data)
    return [values[at:at + tensor.shape[1]] for at in range(0, len(values), tensor.shape[1])]


class LastLayerTest(FlowTest):
    """Case 122."""

    def setUp(self):
        super().setUp()
        self.state = torchvision_names(read_zip(self.trained_model / "model"))
        self.given = rows_of(self.trained_model)
        self.file = self.folder / "three.pth"
        write_zip(self.file, self.state)

    def rows_after(self, weights, *words):
        shutil.rmtree(self.folder / "model", ignore_errors=True)
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=weights, learning_rate="1e-6")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, *words)
        return rows_of(self.folder / "model")

    def assert_taken(self, rows, places):
        """Row i of `rows` is about that of the file in places[i]; None: it is that of no other."""
        for row, place in zip(rows, places):
            for other, given in enumerate(self.given):
                near = max(abs(a - b) for a, b in zip(row, given)) < 1e-3
                self.assertEqual(near, other == place)

    def test_the_same_size_is_no_order(self):
        self.assert_taken(self.rows_after(self.file, "120 of 122 tensors", "fresh: fc.weight, fc.bias", ".classes.txt"),
                          [None, None, None])

    def test_names_beside_the_file_are(self):
        (self.folder / "three.classes.txt").write_text("triangle\ncircle\nsquare\n")
        self.assert_taken(self.rows_after(self.file, "122 of 122 tensors"), [1, 2, 0])

    def test_names_in_safetensors_are(self):
        file = self.folder / "three.safetensors"
        write_safetensors(file, self.state, {"classes": json.dumps(["square", "oval", "triangle"])})
        self.assert_taken(self.rows_after(file, "2 of 3 classes; fresh: 'circle'"), [None, 0, 2])

    def test_imagenets_folders_are(self):
        """All 1,000, whose names timm has."""
        names = pathlib.Path(os.environ.get("KILN_PARITY_PACKAGES") or pathlib.Path(__file__).parents[2] / ".deps/parity",
                             "timm/data/_info/imagenet_synsets.txt")
        if not names.is_file():
            self.skipTest(f"no {names}: run environment/install.sh")
        picture = next((self.data / "train/circle").iterdir())
        for part in ("train", "val"):
            for number, name in enumerate(names.read_text().split()):
                folder = self.folder / part / name
                folder.mkdir(parents=True)
                if part == "train" or number < 2:
                    os.symlink(picture, folder / picture.name)
        thousand = self.folder / "published.pth"
        write_zip(thousand, torchvision_names(read_zip(self.untrained / "model")))
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=thousand, batch_size=8, steps=1, epochs=None,
                            train_data_path=self.folder / "train", valid_data_path=self.folder / "val")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, "122 of 122 tensors", "ImageNet")


class FormsTest(FlowTest):
    """What files of weights are, and what is beside them. Through init-model, which reads them as train and audit do."""

    def init(self, weights, *more, exit_code=0, words=()):
        shutil.rmtree(self.folder / "made", ignore_errors=True)
        result = kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "made", "--weights", weights, *more)
        self.assertEqual(result.returncode, exit_code, result.stdout + result.stderr)
        self.assert_names(result.stdout + result.stderr, *words)
        return result

    def test_torchscript(self):
        """Case 116: torch.jit.save compresses its code."""
        file = self.folder / "traced.pt"
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("traced/data.pkl", b"\x80\x02}.")
            archive.writestr("traced/code/__torch__.py", "class ResNet(Module):\n" * 9, zipfile.ZIP_DEFLATED)
            archive.writestr("traced/constants.pkl", b"\x80\x02).")
        self.init(file, exit_code=1, words=["TorchScript", "state_dict()"])
        self.assert_refused(kiln("inspect", file), 1, "TorchScript")

    def test_shards(self):
        """Case 121: the index, the folder or one of them."""
        state = torchvision_names(read_zip(self.untrained / "model"))
        names = list(state)
        parts = {"model-00001-of-00002.safetensors": names[:60], "model-00002-of-00002.safetensors": names[60:]}
        for file, part in parts.items():
            write_safetensors(self.folder / file, {name: state[name] for name in part})
        index = self.folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": {name: file for file, part in parts.items() for name in part}}))
        for given in (*(self.folder / file for file in parts), index, self.folder):
            self.init(given, exit_code=1, words=["shards", "weights.safetensors"])
        write_safetensors(self.folder / "model-00001-of-00001.safetensors", state)
        self.init(self.folder / "model-00001-of-00001.safetensors")

    def test_the_config_beside_them(self):
        """Row C1: with the names of 1,000 classes it is larger than 64 KiB; one that is no JSON, or huge, is told."""
        file, config = self.folder / "hub/model.safetensors", self.folder / "hub/config.json"
        file.parent.mkdir()
        write_safetensors(file, torchvision_names(read_zip(self.trained_model / "model")))
        names = ["circle", "square", "triangle"]
        config.write_text(json.dumps({"id2label": dict(enumerate(names)), "more": "x" * 100_000}))
        self.init(file)
        self.assertEqual(len(rows_of(self.folder / "made")), 3)
        for text in ("\0" * 70_000, " " * (17 << 20)):
            config.write_text(text)
            self.init(file, words=["config.json", "passed over"])

    def test_huge_files_beside_a_model(self):
        """Row C1b: told, and no bug of the program."""
        model = self.folder / "model"
        for file in ("index_to_label.csv", "training.json"):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(self.trained_model, model)
            os.truncate(model / file, 2 << 30)
            for given in (model, model / "model.safetensors") if file == "index_to_label.csv" else ():
                self.init(given, exit_code=1, words=[file])
        self.assert_refused(kiln("export", "--trained-model-path", model, "--output-path", self.folder / "e.onnx"), 1,
                            "training.json")

    def test_what_is_no_tensor(self):
        """Row C9: an array, a list or a number where a tensor belongs."""
        numpy = types.ModuleType("numpy.core.multiarray")

        def _reconstruct(*_):
            raise AssertionError("nothing is called")
        _reconstruct.__module__, _reconstruct.__qualname__ = numpy.__name__, "_reconstruct"
        numpy._reconstruct = _reconstruct

        class Array:
            def __reduce__(self):
                return _reconstruct, (None, (0,), b"b")
        state = torchvision_names(read_zip(self.untrained / "model"))
        with unittest.mock.patch.dict(sys.modules, {"numpy": numpy, "numpy.core": numpy, numpy.__name__: numpy}):
            for value, kind in ((Array(), "a numpy array"), ([1.0, 2.0], "a list"), (5, "an integer")):
                file = self.folder / "odd.pth"
                write_zip(file, {**state, "conv1.weight": value})
                self.init(file, exit_code=1, words=["'conv1.weight'", kind, "not a tensor"])
                write_zip(file, {**state, "epoch": value})
                self.init(file)

    def test_another_network_than_the_one_named(self):
        """Row C5, and a network whose tensors are some of another's."""
        for made, named in (("resnet18", "resnet50"), ("resnet34", "resnet18")):
            folder = self.folder / made
            kiln("init-model", made, "--untrained-model-path", folder)
            self.assertEqual(kiln("inspect", folder).returncode, 0)
            spec = folder / "model_spec.yaml"
            spec.write_text(spec.read_text().replace(made, named))
            self.assert_refused(kiln("inspect", folder), 1, "unexpected" if made == "resnet34" else "missing")

    def test_a_name_that_means_other_contents(self):
        """Of cases.md's smaller ones: refused before anything is read."""
        for name, form, meant in (("x.pt", "onnx", "--format torchvision"), ("x.PTH", "mlflow", "--format torchvision"),
                                  ("x.onnx", "torchvision", "--format onnx"), ("x.tflite", "onnx", ".tflite")):
            result = kiln("export", "--trained-model-path", self.trained_model, "--output-path", self.folder / name, "--format",
                          form)
            self.assert_refused(result, 2, "--output-path", meant)
        self.assertEqual(list(self.folder.iterdir()), [])


class PublishedTest(FlowTest):
    """`--weights torchvision` and `timm`. Their hosts are a server here, which a proxy of the user's leads to, with a
    certificate in their names."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-keys-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        make_authority(cls.place)
        state = {name: Tensor(tensor.kind, tensor.shape, bytes(len(tensor.data)))
                 for name, tensor in torchvision_names(read_zip(cls.untrained / "model")).items()}
        state["fc.bias"].data = state["fc.bias"].data[:-len(ENDING)] + ENDING
        write_safetensors(cls.place / "zeros", state)
        cls.content = (cls.place / "zeros").read_bytes()
        assert hashlib.sha256(cls.content).hexdigest().startswith("f37072fd"), "write_safetensors() writes something else"

    def setUp(self):
        super().setUp()
        self.server = FileServer(self.content, self.place / "server.pem")
        self.addCleanup(self.server.stop)
        self.proxy = Proxy(leads_to=self.server.http.server_port)
        self.addCleanup(self.proxy.stop)
        self.environment = {"https_proxy": self.proxy.url, "no_proxy": "", "SSL_CERT_FILE": str(self.place / "ca.pem"),
                            "CURL_CA_BUNDLE": "", "SSL_CERT_DIR": "", "XDG_CACHE_HOME": str(self.folder / "cache")}

    def kiln(self, *words):
        return kiln(*words, cwd=self.folder, environment=self.environment)

    def init(self, network, weights, name="made"):
        return self.kiln("init-model", network, "--untrained-model-path", self.folder / name, "--weights", weights)

    def assert_made(self, result, *words):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, *words)

    def test_it_is_downloaded_once_and_works_offline(self):
        self.assert_made(self.init("resnet18", "torchvision"), TORCHVISIONS, "47 MB", "license", "its file name")
        self.assertEqual(self.proxy.targets, ["download.pytorch.org:443"])
        self.assertEqual([path for path, _ in self.server.requests], [f"/models/{TORCHVISIONS}"])
        self.server.stop()
        self.assert_made(self.init("resnet18", "torchvision:v1", "again"), TORCHVISIONS)
        images = self.data / "train"
        result = self.kiln("train", "--data-path", images, "--model-name", "auto", "--weights", "torchvision", "--freeze", "backbone",
                           "--trained-model-path", "model", "--log-path", "logs", "--device", "cpu")
        self.assert_made(result, "resnet18 (48 images)", "120 of 122 tensors", TORCHVISIONS)
        self.assertEqual(len(self.proxy.targets), 1)

    def test_another_file_is_refused(self):
        self.server.content = self.content[:-1] + b"\1"
        refused = self.init("resnet18", "torchvision")
        self.assert_refused(refused, 1, "f37072fd", "SHA-256", "another network")
        self.assertNotIn("--weights-sha256", refused.stderr)  # nobody gave a hash
        self.assertEqual([path.name[9:] for path in (self.folder / "cache/kiln/weights").iterdir()], [TORCHVISIONS + ".fetch"])

    def test_timms_are_compared_with_a_list(self):
        refused = self.init("resnet18", "timm")
        self.assert_refused(refused, 1, "80c49dee", "Kiln's list of timm's files", "another network")
        self.assertNotIn("Check the URL", refused.stderr)  # nobody gave one
        self.assertEqual(self.proxy.targets, ["huggingface.co:443"])
        path = r"^/timm/resnet18\.a1_in1k/resolve/[0-9a-f]{40}/model\.safetensors$"
        self.assertRegex(self.server.requests[0][0], path)
        result = self.init("resnet152", "timm")  # its hash is not known, and what comes is a resnet18
        self.assert_refused(result, 1, "resnet152")
        self.assert_names(result.stdout, "not verified", hashlib.sha256(self.content).hexdigest(), "Apache 2.0")
        self.assertEqual(self.server.requests[1][0], "/timm/resnet152.a1h_in1k/resolve/main/model.safetensors")
        self.assert_refused(self.init("densenet161", "timm"), 1, "timm has no such weights", "--weights torchvision")
        self.assertEqual(len(self.server.requests), 2)

    def test_networks_without_one_are_refused(self):
        self.assert_refused(self.init("vit_s_16", "torchvision"), 1, "vit_s_16", "resnet18", "--weights timm")
        self.assert_refused(self.init("resnet18", "torchvision:v2"), 1, "resnet50", "wide_resnet101_2")
        for words in (["train", self.data / "train", "--model-name", "vit_s_14"],
                      ["audit", self.data / "train", "--model-name", "vit_s_14"]):
            self.assert_refused(self.kiln(*words, "--weights", "torchvision"), 1, "vit_s_14", "dinov2")
        self.assertEqual(self.proxy.targets, [])

    def test_a_file_of_that_name_has_a_path(self):
        shutil.copy(self.trained_model / "model", self.folder / "torchvision")
        self.assert_made(self.init("resnet18", "./torchvision"), "./torchvision")
        self.assertEqual(self.proxy.targets, [])

    def test_the_first_advice_for_few_photos(self):
        """Of console and page, with what was typed; not for pictures of 32 pixels, whose network learns soon."""
        line = f"kiln train {self.data / 'train'} --image-size 72 --epochs 1 --weights torchvision"
        result = self.kiln("train", self.data / "train", "--image-size", 72, "--epochs", 1)
        self.assert_made(result, line)
        closing = result.stdout[result.stdout.rindex("\nresult\n"):]
        self.assertLess(closing.index(line), closing.index("kiln score"))
        page = (self.folder / "logs/report.html").read_text()
        first = page[page.index("What to try next"):].split("<li>")[1].split("</li>")[0]
        self.assertIn(line, first)
        self.assertEqual(self.proxy.targets, [])


if __name__ == "__main__":
    main()
