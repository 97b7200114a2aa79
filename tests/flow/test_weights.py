"""Where a network's first weights come from: `kiln train --model-name … --weights …`, and a trained model that goes on."""
import array
import csv
import json
import pathlib
import shutil
import subprocess
import tempfile

from flow import FlowTest, kiln, main, seen_images
from weight_files import Tensor, read_zip, torchvision_names, write_zip


def rows_of(tensor):
    """The rows of a last layer's weight."""
    values = array.array("f", tensor.data)
    width = tensor.shape[1]
    return [values[at:at + width] for at in range(0, len(values), width)]


class WeightsTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        """A model that has learned something, with its checkpoint."""
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.trained, cls.checkpoints, cls.logs = (cls.place / name for name in ("trained", "checkpoints", "logs"))
        made = kiln("train", "--model-name", "resnet18", "--train-data-path", cls.data / "train", "--valid-data-path",
                    cls.data / "val", "--trained-model-path", cls.trained, "--checkpoint-path", cls.checkpoints, "--log-path",
                    cls.logs, "--epochs", 8, "--patience", 100, "--learning-rate", 0.01, "--batch-size", 24, "--threads", 2,
                    "--device", "cpu", "--save", "last")
        assert made.returncode == 0, made.stderr

    def train_named(self, **options):
        return self.train(**{"untrained_model_path": None, "model_name": "resnet18", **options})

    def assert_trained(self, result, *words):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, *words)
        return (self.folder / "model/model").read_bytes()

    def losses_in(self, logs):
        """The training losses of the epochs."""
        with open(logs / "epochs.csv", newline="") as file:
            return [float(row["Train loss"]) for row in csv.DictReader(file)]

    def test_a_network_by_its_name_is_that_of_init_model(self):
        by_name = self.assert_trained(self.train_named(learning_rate=0.001), "fresh weights from the seed", "normalization:    half")
        self.assertTrue(by_name == self.assert_trained(self.train()), "the models differ")

    def test_a_trained_model_goes_on(self):
        """From whatever holds it: all of them have the same weights, classes and normalization."""
        packed = self.folder / "model.tar.gz"
        subprocess.run(["tar", "-czf", packed, "-C", self.trained, "."], check=True)
        made = []
        for options in ({"untrained_model_path": self.trained, "model_name": None}, {"weights": packed},
                        {"weights": self.checkpoints}):
            with self.subTest(options=options):
                result = self.train_named(learning_rate=0.0001, **options)
                made.append(self.assert_trained(result, "122 of 122 tensors from '", "since the classes are the same",
                                                "momentum and schedule start over", "given weights",
                                                "normalization:    half (as the weights were trained)"))
                self.assertNotIn("fresh", result.stdout)
                first, last = self.losses_in(self.logs)[0], self.losses_in(self.logs)[-1]
                self.assertLess(self.losses_in(self.folder / "logs")[0], (first + last) / 2)
        self.assertEqual([model == made[0] for model in made], [True] * 3)

    def test_what_the_weights_have_seen_stays_known(self):
        """However they are given: the sets are exchanged here, so that each of both has seen all images."""
        packed, again = self.folder / "model.tar", self.folder / "again"
        subprocess.run(["tar", "-cf", packed, "-C", self.trained, "."], check=True)
        made = kiln("init-model", "resnet18", "--weights", self.trained, "--untrained-model-path", again)
        self.assertEqual(made.returncode, 0, made.stderr)
        images = set().union(*seen_images(self.trained))
        for options in ({"weights": self.trained}, {"weights": packed}, {"weights": self.trained / "model.safetensors"},
                        {"weights": self.checkpoints}, {"untrained_model_path": again, "model_name": None}):
            with self.subTest(options=options):
                result = self.train_named(train_data_path=self.data / "val", valid_data_path=self.data / "train", freeze="backbone",
                                          augment="none", batch_size=12, **options)
                self.assert_trained(result, "warning: The initial weights were trained on")
                self.assertEqual(seen_images(self.folder / "model"), (images, images))
                shutil.rmtree(self.folder / "model")

    def test_a_resumed_run_keeps_its_normalization(self):
        """The same weights without the files beside them do not say theirs."""
        options = {"checkpoint_path": self.folder / "checkpoints", "learning_rate": 0.001}
        self.assert_trained(self.train_named(weights=self.trained / "model.safetensors", **options), "half (as the weights")
        alone = shutil.copy(self.trained / "model.safetensors", self.folder / "start.safetensors")
        self.assert_trained(self.train_named(weights=alone, epochs=2, **options), "half (as before)")
        self.assertEqual(json.loads((self.folder / "model/preprocessing.json").read_text())["mean"], [0.5] * 3)

    def test_timms_networks_from_hugging_face(self):
        """Their config.json has the normalization, also for what init-model makes of them; some filter what ours do not."""
        source, made = self.folder / "hub/pytorch_model.bin", self.folder / "made"
        source.parent.mkdir()
        write_zip(source, torchvision_names(read_zip(self.untrained / "model")))
        config = {"architecture": "resnet18", "pretrained_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
        (source.parent / "config.json").write_text(json.dumps(config))
        self.assert_trained(self.train_named(weights=source), "half (as the weights were trained)")
        self.assertEqual(kiln("init-model", "resnet18", "--weights", source, "--untrained-model-path", made).returncode, 0)
        shutil.rmtree(self.folder / "model")
        self.assert_trained(self.train(untrained_model_path=made), "half (as the weights were trained)")
        shutil.rmtree(self.folder / "model")
        (source.parent / "config.json").write_text(json.dumps({**config, "architecture": "resnetblur18"}))
        self.assert_fails(self.train_named(weights=source), 1, 159, "resnetblur")
        alone = self.folder / "models--timm--resnetblur18.x/snapshots/1/model.safetensors"
        alone.parent.mkdir(parents=True)
        shutil.copy(self.trained / "model.safetensors", alone)
        self.assert_fails(self.train_named(weights=alone), 1, 159, "resnetblur")

    def test_rows_of_known_classes_stay(self):
        """In other places, beside a class that the model does not know."""
        data = self.folder / "data"
        for part in ("train", "val"):
            shutil.copytree(self.data / part, data / part)
            (data / part / "circle").rename(data / part / "zigzag")
        self.assert_trained(self.train_named(weights=self.trained, train_data_path=data / "train", learning_rate="1e-6",
                                             valid_data_path=data / "val"), "2 of 3 classes; fresh: 'zigzag'")
        before, after = (rows_of(read_zip(folder / "model")["model.fc.weight"])
                         for folder in (self.trained, self.folder / "model"))
        for was, now in ((1, 0), (2, 1)):  # square and triangle
            self.assertLess(max(abs(a - b) for a, b in zip(before[was], after[now])), 1e-3)

    def test_fine_tuning_has_torchvisions_last_layer(self):
        source = self.folder / "imagenet.pth"
        write_zip(source, torchvision_names(read_zip(self.untrained / "model")))
        self.assert_trained(self.train_named(weights=source), "120 of 122 tensors", "(a state dict)", "fresh: fc.weight, fc.bias",
                            "1,000 outputs and the data 3 classes", "imagenet (unknown for these weights)")
        made = read_zip(self.folder / "model/model")
        self.assertEqual(list(made)[-2:], ["model.fc.weight", "model.fc.bias"])
        self.assertEqual(made["model.fc.weight"].shape, (3, 512))
        self.assertIn("pretrained: false", (self.folder / "model/model_spec.yaml").read_text())
        scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", self.data / "val", "--output-path",
                      self.folder / "scores.csv")
        self.assertEqual(scored.returncode, 0, scored.stderr)

    def test_the_designers_head(self):
        """What init-model makes of weights is trained with it."""
        source = self.folder / "imagenet.pth"
        write_zip(source, torchvision_names(read_zip(self.untrained / "model")))
        made = kiln("init-model", "resnet18", "--weights", source, "--untrained-model-path", self.folder / "pretrained")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assert_trained(self.train(untrained_model_path=self.folder / "pretrained"), "pretrained weights",
                            "normalization:    imagenet")
        self.assertIn("out_linear_model.weight", read_zip(self.folder / "model/model"))

    def test_ranks_get_them_from_the_first(self):
        result = self.train_named(weights=self.trained, ranks=2, threads=1, batch_size=12, learning_rate="1e-6")
        self.assert_trained(result, "122 of 122 tensors")
        last = self.losses_in(self.logs)[-1]
        self.assertLess(self.losses_in(self.folder / "logs")[0], (self.losses_in(self.logs)[0] + last) / 2)

    def test_a_network_by_the_number_of_images(self):
        """On all ranks the same; a run that resumes keeps it, though it has less time than before."""
        options = {"model_name": "auto", "train_data_path": None, "valid_data_path": None, "data_path": self.data / "train",
                   "checkpoint_path": self.folder / "checkpoints", "ranks": 2, "threads": 1, "batch_size": 12}
        self.assert_trained(self.train_named(**options), "model-name:       resnet18 (48 images, no weights)")
        self.assert_trained(self.train_named(epochs=2, **options), "model-name:       resnet18 (as before)")
        short = {**options, "time_limit": "1s", "ranks": None, "checkpoint_path": None}
        self.assert_trained(self.train_named(**short), "mobilenet_v3_large (48 images, no weights, no time for resnet18)")

    def test_what_cannot_be_used(self):
        """Together with what is wrong with the data."""
        result = self.train_named(model_name="resnet34", weights=self.trained)
        self.assert_fails(result, 1, 159, "not those of resnet34", "those of resnet18: use that network")
        result = self.train_named(weights=self.folder / "no.pth", train_data_path=self.folder / "nowhere")
        self.assert_names(result.stderr, "nowhere", "no.pth")
        wrapped = self.folder / "half.pth"
        write_zip(wrapped, {"conv1.weight": Tensor("Float", (64, 3, 7, 7), bytes(4 * 64 * 147))})
        self.assert_fails(self.train_named(weights=wrapped), 1, 159, "missing: model.layer1.0.conv1.weight")

    def test_a_run_resumes_with_its_weights_only(self):
        options = {"checkpoint_path": self.folder / "checkpoints"}
        self.assert_trained(self.train_named(weights=self.trained, **options))
        again = self.train_named(weights=self.untrained / "model", epochs=2, **options)
        self.assert_refused(again, 1, "cannot be resumed")
        self.assert_trained(self.train_named(weights=self.checkpoints, epochs=2, **options))


if __name__ == "__main__":
    main()
