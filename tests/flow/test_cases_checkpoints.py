"""Reports of users of other trainers, and files from them, through the real program: weights of others,
and what a model has seen."""
import argparse
import decimal
import json
import pathlib
import random
import struct

from flow import FlowTest, kiln, main
from weight_files import Tensor, read_zip, torchvision_names, write_safetensors, write_zip


class Weights(FlowTest):
    """Weights that other programs wrote."""

    def setUp(self):
        super().setUp()
        self.state = torchvision_names(read_zip(self.untrained / "model"))
        self.changed = self.state | {"conv1.weight": Tensor("Float", (64, 3, 7, 7), bytes(4 * 64 * 147))}

    def init(self, weights, *more):
        return kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "made", "--weights", weights, *more)

    def assert_takes(self, weights, state, *words):
        made = self.init(weights)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(torchvision_names(read_zip(self.folder / "made/model")), state)
        self.assert_names(made.stdout, *words)

    def test_training_checkpoints(self):
        """Cases 05, 07 and 08: a compiled network and its average, in a checkpoint with objects that no tensor needs."""
        path = self.folder / "night#2.pth.tar"
        average = {f"module.{name}": item for name, item in self.changed.items()} | {"n_averaged": Tensor("Long", (), bytes(8))}
        compiled = {f"model._orig_mod.{name}" if i % 2 else name: item for i, (name, item) in enumerate(self.state.items())}
        write_zip(path, {
            "epoch": 3, "arch": "resnet18", "args": argparse.Namespace(lr=0.1, output=pathlib.PurePosixPath("/out")),
            "state_dict": compiled, "state_dict_ema": average, "metric": decimal.Decimal("71.2"), "random": random.getstate(),
            "ids": {1, 2}, "raw": b"x"})
        self.assert_takes(path, self.state, "its state_dict; for another, add #state_dict_ema")
        self.assert_takes(f"{path}#state_dict_ema", self.changed, "its state_dict_ema; for another, add #state_dict")
        self.assert_refused(self.init(f"{path}#ema"), 1, "no part 'ema'", "#state_dict or #state_dict_ema")
        report = json.loads(kiln("inspect", f"{path}#state_dict_ema", "--json").stdout)
        self.assertEqual((report["part"], report["parts"], report["tensors"]),
                         ("state_dict_ema", ["state_dict", "state_dict_ema"], len(average)))

    def test_networks_in_one_state_dict(self):
        """None is guessed; `#` takes one; a file with `#` in its own name is that file."""
        path = self.folder / "a.pth"
        networks = {"student": self.state, "module.teacher": self.changed}
        write_zip(path, {f"{network}.{name}": item for network, state in networks.items() for name, item in state.items()})
        self.assert_refused(self.init(path), 1, "#student or #teacher")
        self.assert_takes(f"{path}#teacher", self.changed, "its teacher; for another, add #student")
        path.rename(f"{path}#teacher")
        self.assert_refused(self.init(f"{path}#teacher"), 1, "#student or #teacher")

    def test_published_weights_have_a_word(self):
        self.assert_refused(self.init("resnet18-f37072fd.pth"), 1, "'resnet18-f37072fd.pth'", "--weights torchvision")
        result = self.train(untrained_model_path=None, model_name="resnet18", weights="imagenet")
        self.assert_refused(result, 1, "--weights torchvision")

    def test_values_are_finite(self):
        """Row L2."""
        path = self.folder / "bad.safetensors"
        train = {"untrained_model_path": None, "model_name": "resnet18", "weights": path}
        for run, name, kind, form, value in ((self.init, "layer1.0.bn1.running_var", "Float", "<f", "inf"),
                                             (lambda _: self.train(**train), "fc.bias", "Double", "<d", "1e300")):
            with self.subTest(name=name):
                shape = self.state[name].shape
                item = Tensor(kind, shape, struct.pack(form, float(value)) * shape[0])
                write_safetensors(path, self.state | {name: item})
                self.assert_refused(run(path), 1, "bad.safetensors", name)

    def test_a_model_keeps_what_it_knows(self):
        """Its classes in init-model; its normalization, beside its model.safetensors."""
        trained = self.train(normalization="half")
        self.assertEqual(trained.returncode, 0, trained.stderr)
        model = (self.folder / "model").rename(self.folder / "first")
        made = self.init(model)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual((self.folder / "made/index_to_label.csv").read_bytes(), (model / "index_to_label.csv").read_bytes())
        self.assertEqual(read_zip(self.folder / "made/model"), read_zip(model / "model"))
        (model / "_meta.yaml").unlink()
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=model / "model.safetensors")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.training()["data"]["normalization"]["mean"], [0.5] * 3)


class Answers(FlowTest):
    """Reports speak of the model that was saved."""

    def test_score_says_which_images_the_model_has_seen(self):
        for part, word in (("train", "training images of the model"), ("val", "validation images that selected the model")):
            scored = kiln("score", "--trained-model-path", self.trained_model, "--data-path", self.data / part,
                          "--output-path", self.folder / "scores.csv")
            self.assertEqual(scored.returncode, 0, scored.stderr)
            self.assertRegex(scored.stdout + scored.stderr, rf"warning: \d+ images are .*{word}")


if __name__ == "__main__":
    main()
