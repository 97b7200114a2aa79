"""Kubeflow's component files, checked by kfp's loader and compiler, and by our own rules for what these accept wrongly."""
import decimal
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from platforms import COMMANDS, KILN, KUBEFLOW, ROOT, SHARE, described, main, use_clients

use_clients()
import jsonschema  # noqa: E402
import yaml  # noqa: E402
from kfp import compiler, components  # noqa: E402
from option_tables import json_schema  # noqa: E402

TYPES = {"Model", "Dataset", "Metrics", "Integer", "Float", "Boolean", "String"}
ARTIFACTS = {"Model", "Dataset", "Metrics"}


def faults(component):
    """Faults of a component parsed from YAML that kfp accepts."""
    arguments = component["implementation"]["container"]["args"]
    placeholders = [argument for argument in arguments if isinstance(argument, dict)]
    used = {value for placeholder in placeholders for value in placeholder.values() if isinstance(value, str)}
    runs = any("executorInput" in placeholder for placeholder in placeholders)
    found = [f"'{kind}' is no placeholder" for placeholder in placeholders for kind in placeholder
             if kind not in ("inputValue", "inputPath", "outputPath", "executorInput")]
    ports = component["inputs"] + component["outputs"]
    names = [re.sub(r"[^a-z0-9_]", "_", port["name"].lower()) for port in ports]
    found += [f"{name} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    for port in ports:
        name, kind = port["name"], port.get("type")
        if kind not in TYPES:
            found.append(f"{name} has the type {kind}")
        if name not in used and not (kind == "Metrics" and runs):
            found.append(f"{name} is not used")
        if port.get("optional"):
            found.append(f"{name} is optional")
        if port in component["inputs"] and (kind in ARTIFACTS) == ("default" in port):
            found.append(f"{name} must have a default if it is a parameter, and none else")
    return found


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


def compiled(path):
    """The pipeline specification that kfp compiles from the component file."""
    with tempfile.TemporaryDirectory() as folder:
        compiler.Compiler().compile(components.load_component_from_file(str(ROOT / path)), f"{folder}/ir.yaml")
        return yaml.safe_load(pathlib.Path(folder, "ir.yaml").read_text())


class ComponentTest(unittest.TestCase):
    def test_own_rules(self):
        for path in KUBEFLOW.values():
            with self.subTest(path=path):
                self.assertEqual(faults(read(path)), [])

    def test_own_rules_find_bad_edits(self):
        edits = {"epochs is there twice": lambda c: c["inputs"].append({"name": "Epochs", "type": "Integer", "default": "1"}),
                 "has the type Picture": lambda c: c["inputs"][0].update(type="Picture"),
                 "epochs is not used": lambda c: c["implementation"]["container"].update(
                     args=[word for word in c["implementation"]["container"]["args"] if word != {"inputValue": "epochs"}]),
                 "is optional": lambda c: c["inputs"][0].update(optional=True),
                 "must have a default": lambda c: next(p for p in c["inputs"] if p["name"] == "epochs").pop("default"),
                 "'if' is no placeholder": lambda c: c["implementation"]["container"]["args"].append({"if": {}})}
        for fault, edit in edits.items():
            with self.subTest(fault=fault):
                component = read(KUBEFLOW["train"])
                edit(component)
                self.assertIn(fault, "; ".join(faults(component)))

    def test_kfp_compiles_them(self):
        for name, path in KUBEFLOW.items():
            with self.subTest(path=path):
                specification = compiled(path)
                (executor,) = specification["deploymentSpec"]["executors"].values()
                self.assertEqual(executor["container"]["command"], ["kiln", *COMMANDS.get(name, name).split()])
                (definition,) = specification["components"].values()
                parameters = definition["inputDefinitions"].get("parameters", {})
                self.assertTrue(all("defaultValue" in parameter for parameter in parameters.values()), parameters)
                self.assertIn("artifacts", definition["outputDefinitions"])


def as_text(value):
    """A parameter as the back end writes it: numbers without exponents and trailing zeros."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{decimal.Decimal(repr(value)).normalize():f}" if isinstance(value, float) else str(value)


class CommandTest(unittest.TestCase):
    def test_the_program_accepts_the_back_ends_arguments(self):
        """Every argument of the compiled pipelines, with its default or a path."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            subprocess.run([KILN, "demo-data", "--output-path", folder / "data", "--images", "60"], check=True,
                           capture_output=True)
            artifact = {"name": "metrics", "uri": "s3://bucket/metrics", "type": {"schemaTitle": "system.Metrics"}}
            run = {"outputs": {"artifacts": {"metrics": {"artifacts": [artifact]}}, "outputFile": str(folder / "told.json")}}
            places = {"init-model": {"untrained_model_path": folder / "untrained"},
                      "convert": {"input_path": folder / "data/train", "output_path": folder / "deep/images"},
                      "transform init": {"output_path": folder / "deep/transformation"},
                      "transform apply": {"input_image_transform_path": folder / "deep/transformation",
                                          "input_image_dir_path": folder / "deep/images",
                                          "output_path": folder / "deep/transformed"},
                      "train": {"untrained_model_path": folder / "untrained", "train_data_path": folder / "deep/images",
                                "valid_data_path": folder / "data/val", "trained_model_path": folder / "deep/model",
                                "epochs": "1", "run": json.dumps(run)},
                      "score": {"trained_model_path": folder / "deep/model", "data_path": folder / "data/val",
                                "scored_dataset": folder / "deep/scored"},
                      "evaluate": {"trained_model_path": folder / "deep/model", "data_path": folder / "data/val",
                                   "output_path": folder / "deep/evaluation"},
                      "fine-tune": {"data_path": folder / "data/train", "weights": folder / "untrained/model",
                                    "trained_model_path": folder / "deep/tuned", "time_limit": "5s", "run": json.dumps(run)}}
            for name, values in places.items():
                words = self.filled_in(compiled(KUBEFLOW[name]), values)
                done = subprocess.run([KILN, *words], capture_output=True, text=True, cwd=folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertTrue((folder / "deep/model/_meta.yaml").exists())
            self.assertTrue((folder / "deep/tuned/_meta.yaml").exists())
            self.assertTrue((folder / "deep/scored/_data.parquet").exists())
            self.assertTrue((folder / "deep/evaluation/evaluation.html").exists())
            told = json.loads((folder / "told.json").read_text())["artifacts"]["metrics"]["artifacts"][0]
            self.assertIn("Top-1 validation accuracy", told["metadata"])

    def filled_in(self, specification, values):
        (executor,) = specification["deploymentSpec"]["executors"].values()
        (definition,) = specification["components"].values()
        texts = {name: as_text(parameter["defaultValue"])
                 for name, parameter in definition["inputDefinitions"].get("parameters", {}).items()}
        container = executor["container"]
        words = container["command"][1:] + container["args"]
        name_of = re.compile(r"\{\{\$\.(?:inputs|outputs)\.(?:parameters|artifacts)\['(\w+)'\](?:\.path)?\}\}")
        return [values["run"] if word == "{{$}}" else name_of.sub(lambda found: str({**texts, **values}[found[1]]), word)
                for word in words]

    def test_an_unfilled_placeholder_is_refused(self):
        for text in ("{{$.inputs.parameters['epochs']}}", '{"IfPresent": {"InputName": "epochs"}}'):
            done = subprocess.run([KILN, "train", "--epochs", text], capture_output=True, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("a placeholder that the pipeline did not fill in", done.stderr)


class PipelineTest(unittest.TestCase):
    def run_script(self, path, *arguments):
        done = subprocess.run([sys.executable, ROOT / path, *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_example(self):
        """examples/kubeflow/pipeline.py compiles; train waits for what comes before it, score and evaluate wait for train."""
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "pipeline.yaml"
            self.run_script("examples/kubeflow/pipeline.py", out)
            tasks = yaml.safe_load(out.read_text())["root"]["dag"]["tasks"]
        self.assertEqual(set(tasks["kiln-train"]["dependentTasks"]), {"kiln-init-model", "kiln-convert", "kiln-convert-2"})
        for step in ("kiln-score", "kiln-evaluate"):
            self.assertIn("kiln-train", tasks[step]["dependentTasks"])

    def test_the_files_of_a_release(self):
        """They stay in the build folder."""
        folder = pathlib.Path(KILN).parent / "kubeflow"
        shutil.rmtree(folder, ignore_errors=True)
        self.run_script("components/kubeflow/compile.py", folder)
        self.assertEqual({path.name for path in folder.iterdir()}, {pathlib.Path(path).name for path in KUBEFLOW.values()})
        for path in KUBEFLOW.values():
            self.assertEqual(yaml.safe_load((folder / pathlib.Path(path).name).read_text()), compiled(path))


class SchemaTest(unittest.TestCase):
    """share/kiln/train.schema.json, read by the jsonschema package."""
    schema = json.loads((SHARE / "kiln/train.schema.json").read_text())

    def test_options_of_train(self):
        jsonschema.Draft202012Validator.check_schema(self.schema)
        good = {"epochs": 3, "batch_size": 8, "num-warmup_steps": 1, "image-size": "auto", "max-bad-images": "2.5%",
                "lr-scaling": 0.5, "sync-batch-norm": True}
        jsonschema.validate(good, self.schema)
        for wrong in ({"epochs": 0}, {"epochs": 2.5}, {"image-size": 8}, {"augment": "wild"}, {"learning-rate": 0},
                      {"epoch": 3}, {"max-bad-images": "many"}, {"batch_size": 0}, {"config": "other.yaml"}):
            with self.subTest(wrong=wrong), self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate({**good, **wrong}, self.schema)

    def test_a_file_for_config(self):
        """It may omit options that are on the command line."""
        for name in ("resnet50", "resnet50-50-epochs", "resnet50-90-epochs"):
            jsonschema.validate(read(f"examples/imagenet/{name}.yaml"), self.schema)

    def test_defaults_are_values_of_their_type(self):
        for command in described()["commands"]:
            for name, option in json.loads(json_schema(command))["properties"].items():
                if "default" in option:
                    with self.subTest(command=command["name"], option=name):
                        jsonschema.validate(option["default"], option)


if __name__ == "__main__":
    main()
