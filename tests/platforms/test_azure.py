"""Components and pipelines checked by azure-ai-ml, and by our own rules for what it accepts wrongly."""
import copy
import importlib.util
import os
import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import unittest

from platforms import COMPONENTS, KILN, ROOT, assert_resumed, main, start_until, use_clients

use_clients()
import yaml  # noqa: E402
from azure.ai.ml import load_component, load_job  # noqa: E402

from azure_rules import faults  # noqa: E402

PIPELINE_YAML = ROOT / "examples/azureml/pipeline.yml"
PIPELINE_PYTHON = ROOT / "examples/azureml/pipeline.py"


def read(path):
    return yaml.safe_load((ROOT / path).read_text())


class ComponentTest(unittest.TestCase):
    def test_the_sdk_loads_them(self):
        for command, path in COMPONENTS.items():
            with self.subTest(path=path):
                component = load_component(source=ROOT / path)
                result = component._validate()
                self.assertTrue(result.passed, result.error_messages)
                self.assertEqual(component.name, "kiln_" + re.sub("[- ]", "_", command))

    def test_own_rules(self):
        for path in COMPONENTS.values():
            with self.subTest(path=path):
                self.assertEqual(faults(read(path)), [])

    def test_own_rules_find_bad_edits(self):
        edits = {"out of its range": lambda c: c["inputs"]["epochs"].update(default=0),
                 "fractional default": lambda c: c["inputs"]["epochs"].update(default=2.5),
                 "none of its choices": lambda c: c["inputs"]["save"].update(default="wild"),
                 "does not use config": lambda c: c.update(command=c["command"].replace("$[[--config ${{inputs.config}}]]", "")),
                 "config is optional, but": lambda c: c.update(command=re.sub(r"\$\[\[|\]\]", "", c["command"])),
                 "epochs is required, but": lambda c: c.update(
                     command=c["command"].replace("--epochs ${{inputs.epochs}}", "$[[--epochs ${{inputs.epochs}}]]")),
                 "an image and a build": lambda c: c["environment"].update(build={"path": "."}),
                 "process_count_per_instance is missing": lambda c: c.update(distribution={"type": "mpi"}),
                 "unknown key owner": lambda c: c.update(owner="me"),
                 "unknown key resources.gpus": lambda c: c["resources"].update(gpus=2),
                 "reserved name": lambda c: c["inputs"].update({"class": {"type": "string"}}),
                 "backslash": lambda c: c.update(command=c["command"] + " \\")}
        for fault, edit in edits.items():
            with self.subTest(fault=fault):
                component = copy.deepcopy(read("component.yaml"))
                edit(component)
                self.assertIn(fault, "; ".join(faults(component)))


class CommandTest(unittest.TestCase):
    """The pipeline as built in the designer: every step runs in its own processes, with the command as Azure fills it in and
    all defaults."""

    def filled_in(self, component, values):
        command = re.sub(r"\$\[\[.*?\]\]", "", component["command"])
        defaults = {name: value["default"] for name, value in component["inputs"].items() if "default" in value}
        return re.sub(r"\$\{\{(?:inputs|outputs)\.(\w+)\}\}", lambda found: str({**defaults, **values}[found[1]]), command)

    def test_all_steps_from_their_components(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            subprocess.run([KILN, "demo-data", "--output-path", folder / "data", "--images", "60", "--size", "32"], check=True,
                           capture_output=True)
            steps = [("components/init-model.yaml", {"untrained_model_path": folder / "untrained"}),
                     ("components/convert.yaml", {"input_path": folder / "data/train", "output_path": folder / "train"}),
                     ("components/convert.yaml", {"input_path": folder / "data/val", "output_path": folder / "valid"}),
                     ("components/split.yaml", {"src_path": folder / "train", "tgt_train_path": folder / "part",
                                                "tgt_test_path": folder / "rest"}),
                     ("components/pack.yaml", {"input_path": folder / "train", "output_path": folder / "shards",
                                               "format": "tfrecord", "balance_classes": True}),
                     ("components/transform-init.yaml", {"output_path": folder / "transformation",
                                                         "random_horizontal_flip": True}),
                     ("components/transform-apply.yaml", {"input_image_transform_path": folder / "transformation",
                                                          "input_image_dir_path": folder / "train",
                                                          "output_path": folder / "transformed"}),
                     ("component.yaml", {"untrained_model_path": folder / "untrained", "train_data_path": folder / "transformed",
                                         "valid_data_path": folder / "valid", "trained_model_path": folder / "model",
                                         "checkpoint_path": folder / "checkpoints", "epochs": 1, "batch_size": 24}),
                     ("components/score.yaml", {"trained_model_path": folder / "model", "data_path": folder / "valid",
                                                "scored_dataset": folder / "scored"}),
                     ("components/evaluate.yaml", {"trained_model_path": folder / "model", "data_path": folder / "valid",
                                                   "output_path": folder / "evaluation"}),
                     ("components/fine-tune.yaml", {"data_path": folder / "train", "weights": folder / "untrained/model",
                                                    "trained_model_path": folder / "tuned", "time_limit": "5s"})]
            told = ""
            for path, values in steps:
                done = self.run_step(read(path), values, folder)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                told += done.stdout
            self.assertIn("ranks:            2 on host", told)
            self.assertRegex(told, r"Packed \d+ images \(0 downscaled.*\) of 3 classes into 1 shard,")
            for made in ("part/_meta.yaml", "shards/train-000000.tfrecord", "model/_meta.yaml", "scored/_data.parquet",
                         "evaluation/evaluation.html", "tuned/_meta.yaml"):
                self.assertTrue((folder / made).exists(), made)

    def test_a_job_that_was_stopped_resumes_from_the_same_output(self):
        """Azure ML gives no notice. The next job has a folder of its own, and a mount of the output's fixed path."""
        epochs = 20
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for words in (["demo-data", folder / "data", "--images", "60", "--size", "32"],
                          ["init-model", "resnet18", "--untrained-model-path", folder / "untrained"]):
                subprocess.run([KILN, *words], check=True, capture_output=True)
            values = {"untrained_model_path": folder / "untrained", "train_data_path": folder / "data/train",
                      "valid_data_path": folder / "data/val", "checkpoint_path": folder / "checkpoints", "epochs": epochs,
                      "batch_size": 24, "patience": 100}
            for name in ("first", "second"):
                (folder / name).mkdir()
            (folder / "checkpoints").mkdir()
            component = read("component.yaml")
            first = self.words(component, {**values, "trained_model_path": folder / "first/model"})
            job = start_until(self, "Epoch 4,", first, cwd=folder / "first", env=self.environment())
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            done = self.run_step(component, {**values, "trained_model_path": folder / "second/model"}, folder / "second")
            assert_resumed(self, done, folder / "second/model", folder / "second/logs", epochs)

    def words(self, component, values):
        command = shlex.split(self.filled_in(component, values))
        self.assertEqual(command[0], "kiln")
        launcher = ["mpirun", "--oversubscribe", "-np", "2"] if "distribution" in component else []
        return [*launcher, KILN, *command[1:]]

    @staticmethod
    def environment():
        return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run_step(self, component, values, folder):
        return subprocess.run(self.words(component, values), capture_output=True, text=True, cwd=folder,
                              env=self.environment())


class PipelineTest(unittest.TestCase):
    def assert_two_nodes_with_two_processes(self, job):
        result = job._validate()
        self.assertTrue(result.passed, result.error_messages)
        train = job.jobs["train"]
        self.assertEqual(train.resources.instance_count, 2)
        self.assertEqual(train.distribution.process_count_per_instance, 2)
        self.assertLessEqual({"score", "evaluate"}, set(job.jobs))
        checkpoints = job._to_dict()["jobs"]["train"]["outputs"]["checkpoint_path"]
        self.assertTrue(checkpoints["path"].startswith("azureml://"), checkpoints)  # without a path, each job has another
        self.assertEqual(checkpoints["mode"], "rw_mount")

    def test_yaml(self):
        self.assert_two_nodes_with_two_processes(load_job(source=PIPELINE_YAML))

    def test_yaml_is_the_whole_sample(self):
        used = {job["component"].removeprefix("../../") for job in read(PIPELINE_YAML)["jobs"].values()}
        steps = ("convert", "split", "transform-init", "transform-apply", "init-model", "score", "evaluate")
        self.assertEqual(used, {"component.yaml", *(f"components/{step}.yaml" for step in steps)})

    def test_python(self):
        spec = importlib.util.spec_from_file_location("pipeline", PIPELINE_PYTHON)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.assert_two_nodes_with_two_processes(module.build_pipeline())


if __name__ == "__main__":
    main()
