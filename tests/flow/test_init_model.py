"""`kiln init-model`, its weights files, and training that starts from them."""
import array
import json
import os
import pathlib
import subprocess
import sys

from flow import FlowTest, kiln, main, networks
from weight_files import (Tensor, old_densenet_names, read_zip, torchvision_names, write_legacy, write_safetensors,
                          write_zip)

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH_ROOT = pathlib.Path(os.environ.get("KILN_TORCH_ROOT") or ROOT / ".deps/libtorch")
PACKAGES = ROOT / ".deps/parity"

SAVE_WITH_TORCH = """
import re, sys, torch, torchvision
torch.manual_seed(3)
state = torchvision.models.densenet121().state_dict()
old = {re.sub(r"(denselayer\\d+\\.(?:norm|conv))([12])\\.", r"\\1.\\2.", name): tensor for name, tensor in state.items()
       if not name.endswith("num_batches_tracked")}
torch.save(state, sys.argv[1] + "/today.pth")
torch.save(old, sys.argv[1] + "/old.pth", _use_new_zipfile_serialization=False)
"""


class InitModelTest(FlowTest):
    def init(self, model, *more, target="made"):
        return kiln("init-model", model, "--untrained-model-path", self.folder / target, *more)

    def made(self, target="made"):
        return read_zip(self.folder / target / "model")

    def assert_made(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def assert_refused(self, result, exit_code, *words):
        super().assert_refused(result, exit_code, *words)
        self.assertFalse((self.folder / "made/_meta.yaml").exists())

    states = {}

    def fresh(self, model):
        """A state under torchvision's names, drawn once for all tests."""
        if model not in self.states:
            self.assert_made(self.init(model, "--random-seed", 7, target=f"fresh-{model}"))
            self.states[model] = torchvision_names(self.made(f"fresh-{model}"))
        return dict(self.states[model])

    def test_an_unknown_model_is_refused_with_a_guess_and_the_list(self):
        self.assert_refused(self.init("resnet81"), 1, "'resnet18'", *networks())

    def test_directories_of_both_families(self):
        for model, kind, parameter in [("resnet34", "ResNet", "zero_init_residual"),
                                       ("densenet121", "DenseNet", "memory_efficient")]:
            with self.subTest(model=model):
                result = self.init(model, target=model)
                self.assert_made(result)
                names = {path.name for path in (self.folder / model).iterdir()}
                self.assertEqual(names, {"_meta.yaml", "model_spec.yaml", "model"})
                self.assertEqual((self.folder / model / "_meta.yaml").read_text(),
                                 "type: ModelDirectory\nextension: {}\nmodel: model_spec.yaml\n")
                spec = (self.folder / model / "model_spec.yaml").read_text()
                self.assert_names(spec, f"class: {kind}", f"model_name: {model}", "pretrained: false", f"{parameter}: false")
                self.assertEqual(list(self.made(model).values())[-2].shape[0], 1000)

    def test_the_original_spelling(self):
        self.assert_refused(self.init("resnet18", "--pretrained", "maybe"), 2, "--pretrained")
        result = kiln("init-model", "--untrained_model_path", self.folder / "made", "--model_name=resnet18",
                      "--pretrained", "False", "--zero-init-residual", "True")
        self.assert_made(result)
        self.assertIn("zero_init_residual: true", (self.folder / "made/model_spec.yaml").read_text())
        last_norm = self.made()["model.layer1.0.bn2.weight"]
        self.assertEqual(last_norm.data, bytes(4 * 64))

    def test_an_option_of_the_other_family_is_refused(self):
        self.assert_refused(self.init("densenet121", "--zero-init-residual"), 2, "--zero-init-residual", "densenet121")

    def test_weights_in_every_form(self):
        state = self.fresh("resnet18")
        source = self.folder / "weights.pth"
        for form in (write_zip, write_legacy, write_safetensors):
            with self.subTest(form=form.__name__):
                form(source, state)
                self.assert_made(self.init("resnet18", "--weights", source, "--pretrained", "True"))
                self.assertEqual(torchvision_names(self.made()), state)
                self.assertIn("pretrained: true", (self.folder / "made/model_spec.yaml").read_text())
        self.assert_made(self.init("resnet18", "--weights", self.folder / "made/model"))  # kiln's own file
        self.assertEqual(torchvision_names(self.made()), state)

    def test_old_densenet_names(self):
        state = self.fresh("densenet121")
        old = old_densenet_names(state)
        self.assertIn("features.denseblock1.denselayer1.norm.1.weight", old)
        write_legacy(self.folder / "old.pth", old)
        self.assert_made(self.init("densenet121", "--weights", self.folder / "old.pth"))
        self.assertEqual(torchvision_names(self.made()), state)

    def test_files_that_torch_writes(self):
        if not (PACKAGES / "torchvision").is_dir():
            self.skipTest(f"no torchvision in {PACKAGES}: run environment/install.sh")
        paths = os.pathsep.join([str(TORCH_ROOT), str(PACKAGES)])
        subprocess.run([sys.executable, "-c", SAVE_WITH_TORCH, self.folder], check=True,
                       env={**os.environ, "PYTHONPATH": paths})
        states = []
        for name in ("today", "old"):
            self.assert_made(self.init("densenet121", "--weights", self.folder / f"{name}.pth", target=name))
            states.append(self.made(name))
        self.assertEqual(states[0], states[1])
        self.assertEqual(torchvision_names(states[0]), read_zip(self.folder / "today.pth"))

    def test_wrong_weights_are_named_in_one_error(self):
        state = self.fresh("resnet18")
        source = self.folder / "weights.pth"
        del state["conv1.weight"]
        state["head.bias"] = state["fc.bias"]
        state["fc.weight"] = Tensor("Float", (10, 512), bytes(4 * 5120))
        write_zip(source, state)
        state["layer1.0.conv1.weight"] = Tensor("Float", (64, 32, 3, 3), bytes(4 * 64 * 32 * 9))
        write_zip(source, state)
        self.assert_refused(self.init("resnet18", "--weights", source), 1, "not those of resnet18",
                            "missing: model.conv1.weight", "[64, 32, 3, 3] instead of [64, 64, 3, 3]")

    def test_other_last_layers_are_left_out_and_named(self):
        """In a file of a training program, of a network that was wrapped."""
        state = self.fresh("resnet18")
        state["head.bias"] = state["fc.bias"]
        state["fc.weight"], state["fc.bias"] = Tensor("Float", (10, 512), bytes(4 * 5120)), Tensor("Float", (10,), bytes(40))
        source = self.folder / "weights.pth"
        wrapped = {f"module.{name}": tensor for name, tensor in state.items()}
        write_zip(source, {"epoch": 3, "arch": "resnet18", "state_dict": wrapped, "loss": 0.5})
        result = self.init("resnet18", "--weights", source)
        self.assert_made(result)
        self.assert_names(result.stdout, "120 of 122", "fc.weight, fc.bias", "head.bias")
        made = torchvision_names(self.made())
        self.assertEqual(made["conv1.weight"], state["conv1.weight"])
        self.assertEqual(made["fc.weight"].shape, (1000, 512))

    def test_weights_of_another_network_are_refused_by_name(self):
        write_zip(self.folder / "weights.pth", self.fresh("resnet34"))
        self.assert_refused(self.init("resnet18", "--weights", self.folder / "weights.pth"), 1, "not those of resnet18")

    def test_files_that_are_no_weights(self):
        source = self.folder / "weights.pth"
        write_zip(source, self.fresh("resnet18"))
        whole = source.read_bytes()
        for content in (whole[:100000], b"\x80\x02cposix\nsystem\nq\0."):
            with self.subTest(content=content[:20]):
                source.write_bytes(content)
                self.assert_refused(self.init("resnet18", "--weights", source), 1, "weights.pth")
        self.assert_refused(self.init("resnet18", "--weights", self.folder / "nowhere.pth"), 1, "nowhere.pth",
                            "--weights")
        self.assert_refused(self.init("resnet18", "--weights", self.folder), 1, "irectory", "--weights")

    def test_an_output_that_holds_other_things(self):
        target = self.folder / "made"
        target.mkdir()
        (target / "thesis.tex").write_text("precious")
        self.assert_refused(self.init("resnet18"), 3, "thesis.tex")
        self.assertEqual([path.name for path in target.iterdir()], ["thesis.tex"])

    def test_training_starts_from_the_weights(self):
        given = self.fresh("resnet18")
        write_safetensors(self.folder / "weights.safetensors", given)
        self.assert_made(self.init("resnet18", "--weights", self.folder / "weights.safetensors"))
        for normalization, name, mean in ((None, "imagenet", 0.485), ("half", "half", 0.5)):
            with self.subTest(normalization=normalization):
                result = self.train(untrained_model_path=self.folder / "made", normalization=normalization,
                                    learning_rate="1e-6")
                self.assertEqual(result.returncode, 0, result.stderr)
                data = json.loads((self.folder / "model/training.json").read_text())["data"]
                self.assertEqual((data["normalization"]["name"], data["normalization"]["mean"][0]), (name, mean))
                self.assertIn(f"- {mean}\n", (self.folder / "model/model_spec.yaml").read_text())
        trained = self.made("model")
        self.assertEqual([(key, trained[key].shape) for key in list(trained)[-4:]],
                         [("model.fc.weight", (1000, 512)), ("model.fc.bias", (1000,)),
                          ("out_linear_model.weight", (3, 1000)), ("out_linear_model.bias", (3,))])
        before, after = (array.array("f", tensor.data) for tensor in
                         (given["layer4.1.conv2.weight"], trained["model.layer4.1.conv2.weight"]))
        self.assertNotEqual(before, after)
        trained = (self.folder / "model").rename(self.folder / "trained")
        result = self.train(untrained_model_path=trained)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_names(result.stdout, "124 of 124", trained)
        self.assertLess(max(abs(a - b) for a, b in zip(before, after)), 1e-4)


if __name__ == "__main__":
    main()
