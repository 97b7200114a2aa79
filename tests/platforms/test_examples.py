"""The scripts in examples/, run on small data with the real binary; srun and aws are fakes that record their calls."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

from platforms import KILN, ROOT, assert_resumed, main, start_until

EXAMPLES = ROOT / "examples"
SMALL = ["--epochs", "1", "--batch-size", "24", "--device", "cpu", "--threads", "1", "--loader-threads", "1"]


class ExampleTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-examples-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.kiln("demo-data", "--output-path", self.folder / "data", "--images", "60", "--size", "32")

    def kiln(self, *arguments):
        subprocess.run([KILN, *map(str, arguments)], check=True, capture_output=True)

    def program(self, name, text):
        """Installs a fake program of this name, first on PATH."""
        (self.folder / "bin").mkdir(exist_ok=True)
        path = self.folder / "bin" / name
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def settings(self, environment):
        return {"cwd": self.folder,
                "env": {**os.environ, "KILN": KILN, "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
                        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment}}

    def run_example(self, name, *arguments, **environment):
        return subprocess.run([EXAMPLES / name, *map(str, arguments)], capture_output=True, text=True, timeout=300,
                              **self.settings(environment))

    def assert_trained(self, done, model):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((model / "_meta.yaml").exists())


class ScriptsTest(ExampleTest):
    def test_imagenet(self):
        """imagenet/train.sh with imagenet/resnet50.yaml, imagenet/resnet50-50-epochs.yaml and
        imagenet/resnet50-90-epochs.yaml, on shards made as its first lines describe."""
        for part in ("train", "val"):
            self.kiln("pack", "--input-path", self.folder / "data" / part, "--output-path", self.folder / "shards" / part,
                      "--short-side", 256)
        done = self.run_example("imagenet/train.sh", self.folder / "shards", self.folder / "out", *SMALL, "--image-size", 32,
                                "--eval-crop", 32)
        self.assert_trained(done, self.folder / "out/model")
        self.assertIn("augmentation:     standard", done.stdout)
        for recipe, told in (("resnet50-50-epochs", "--lr-schedule cosine"), ("resnet50-90-epochs", "--ema 0.9999")):
            done = self.run_example("imagenet/train.sh", self.folder / "shards", self.folder / recipe, *SMALL,
                                    "--image-size", 64, "--eval-crop", 64, RECIPE=recipe)
            self.assert_trained(done, self.folder / recipe / "model")
            self.assertIn(told, done.stdout)

    def test_few_photos(self):
        """few-photos/few-photos.sh, with weights written by kiln; all that it names at its end is there."""
        self.kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "weights")
        out = self.folder / "out"
        done = self.run_example("few-photos/few-photos.sh", "resnet18", self.folder / "weights/model",
                                self.folder / "data/train", out, *SMALL)
        self.assert_trained(done, out / "model")
        self.assertRegex(done.stdout, "weights: +120 of 122 tensors")
        self.assertIn("normalization:    imagenet", done.stdout)
        named = re.findall(rf"^  {re.escape(str(out))}/(\S+)", done.stdout[done.stdout.index("What to look at"):], re.M)
        self.assertEqual(named, ["logs/report.html", "audit/audit.html", "scores.csv", "logs/repeat.yaml"])
        for name in [*named, "audit/doubtful.csv", "logs/split.csv"]:
            self.assertTrue((out / name).exists(), name)
        images = sum(1 for path in (self.folder / "data/train").rglob("*") if path.is_file())
        self.assertEqual(len((out / "scores.csv").read_text().splitlines()), images + 1)


class QuickstartTest(ExampleTest):
    def test_reaches_the_promised_accuracy(self):
        """quickstart.sh, in a copy of the repository in which everything is installed and built."""
        if os.environ.get("KILN_NIGHTLY") != "1":
            self.skipTest("only with KILN_NIGHTLY=1")
        for name in ("examples", "environment", "build/release"):
            (self.folder / name).mkdir(parents=True)
        self.program("cmake", "true\n")
        (self.folder / "environment/install.sh").symlink_to(self.folder / "bin/cmake")
        (self.folder / "build/release/kiln").symlink_to(KILN)
        script = shutil.copy(EXAMPLES / "quickstart.sh", self.folder / "examples")
        done = subprocess.run([script], capture_output=True, text=True, timeout=900,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assert_trained(done, self.folder / "build/quickstart/model")
        best = re.search(r"top-1 accuracy +([0-9.]+) %", done.stdout)
        self.assertGreater(float(best[1]), 95)


class SlurmTest(ExampleTest):
    def setUp(self):
        super().setUp()
        (self.folder / "data/val").rename(self.folder / "data/valid")
        self.kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "data/untrained")
        self.program("scontrol", f'echo "$*" >> {self.folder}/scontrol.txt\n')
        self.job = {"DATA": str(self.folder / "data"), "OUT": str(self.folder / "out"), "SLURM_NTASKS": "2",
                    "SLURM_JOB_ID": "17"}

    def run_slurm(self, **environment):
        return self.run_example("slurm/train.sbatch", *SMALL, **self.job, **environment)

    def requeued(self):
        calls = self.folder / "scontrol.txt"
        return calls.read_text().splitlines() if calls.exists() else []

    def test_srun_with_pmix(self):
        self.program("srun", 'echo "srun $*"; while [ "${1#--}" != "$1" ]; do shift; done\n'
                             "SLURM_STEP_NUM_TASKS=2 exec mpirun --oversubscribe -np 2 \"$@\"\n")
        done = self.run_slurm(CONTAINER="registry/kiln:1")
        self.assert_trained(done, self.folder / "out/model")
        self.assertIn("srun --mpi=pmix --kill-on-bad-exit=1 --container-image=registry/kiln:1", done.stdout)
        self.assertIn("ranks:            2 on host", done.stdout)

    def test_srun_without_pmix(self):
        self.program("srun", 'while [ "${1#--}" != "$1" ]; do shift; done\nSLURM_STEP_NUM_TASKS=2 exec "$@"\n')
        done = self.run_slurm()
        self.assertEqual(done.returncode, 1)
        self.assertIn("This job has 1 rank", done.stderr)

    def test_mpirun(self):
        self.program("mpirun", f'exec {shutil.which("mpirun")} --oversubscribe "$@"\n')
        done = self.run_slurm(LAUNCHER="mpirun")
        self.assert_trained(done, self.folder / "out/model")
        self.assertEqual(self.requeued(), [])

    def test_a_job_at_its_time_limit_is_requeued_and_resumes(self):
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                self.stop_and_start(launcher)

    def stop_and_start(self, launcher):
        """Slurm sends USR1 to the script alone, and starts the same script again."""
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        (self.folder / "scontrol.txt").unlink(missing_ok=True)
        self.program("srun", 'while [ "${1#--}" != "$1" ]; do shift; done\nexec mpirun -np 2 "$@"\n')
        self.program("mpirun", f'exec {shutil.which("mpirun")} --oversubscribe "$@"\n')
        epochs = 6
        words = ["--epochs", epochs, *SMALL[2:], "--patience", 100]
        job = start_until(self, "Epoch 2,", [EXAMPLES / "slurm/train.sbatch", *words],
                          **self.settings({**self.job, "LAUNCHER": launcher}))
        job.send_signal(signal.SIGUSR1)
        output, _ = job.communicate(timeout=100)
        self.assertEqual(self.requeued(), ["requeue 17"], output)
        self.assertEqual(job.returncode, 138, output)
        done = self.run_example("slurm/train.sbatch", *words, **self.job, LAUNCHER=launcher, SLURM_RESTART_COUNT="1")
        assert_resumed(self, done, self.folder / "out/model", self.folder / "out/logs", epochs)
        self.assertEqual(self.requeued(), ["requeue 17"])


class SageMakerTest(ExampleTest):
    def test_job(self):
        """sagemaker/submit.sh sends sagemaker/job.json with metrics; kiln trains in the folders that SageMaker makes of it."""
        self.program("aws", f'echo "$1 $2 $3"; printf %s "$4" > "{self.folder}/request.json"\n')
        copy = shutil.copytree(EXAMPLES / "sagemaker", self.folder / "sagemaker")
        done = self.run_example(copy / "submit.sh", KILN=f"nice {KILN}")  # two words, as of an image
        self.assertEqual(done.stdout, "sagemaker create-training-job --cli-input-json\n", done.stderr)
        request = json.loads((self.folder / "request.json").read_text())
        printed = subprocess.run([KILN, "describe", "--format", "sagemaker-metrics"], capture_output=True, text=True, check=True)
        self.assertEqual(request["AlgorithmSpecification"]["MetricDefinitions"], json.loads(printed.stdout))
        self.assertTrue(all(isinstance(value, str) for value in request["HyperParameters"].values()))
        tree = self.lay_out(request)
        environment = {**os.environ, "SAGEMAKER_BASE_DIR": str(tree)}
        done = subprocess.run([KILN, "train", "--device", "cpu", "--image-size", "32"], capture_output=True, text=True,
                              env=environment)
        self.assert_trained(done, tree / "model")
        self.assertTrue(any((tree / "checkpoints").iterdir()))
        self.score(tree / "model")
        self.pack()

    def test_jobs_of_several_hosts(self):
        """sagemaker/cpu-hosts.json and sagemaker/gpu-hosts.json: what kiln makes of them on the leading host, until it
        misses the key by which hosts meet."""
        self.program("aws", f'printf %s "$4" > "{self.folder}/request.json"\n')
        copy = shutil.copytree(EXAMPLES / "sagemaker", self.folder / "sagemaker")
        for name, told in (("cpu-hosts.json", ["--hosts=algo-1:1,algo-2:1", "--shard-by=train"]),
                           ("gpu-hosts.json", ["--hosts=algo-1:1,algo-2:1", "--precision=auto",
                                               "variables passed to the ranks of all hosts: NCCL_DEBUG, NCCL_SOCKET_NTHREADS"])):
            with self.subTest(name=name):
                done = self.run_example(copy / "submit.sh", name)
                self.assertEqual(done.returncode, 0, done.stderr)
                request = json.loads((self.folder / "request.json").read_text())
                self.assertGreater(request["ResourceConfig"]["InstanceCount"], 1)
                self.assertTrue(all(isinstance(value, str) for value in request["HyperParameters"].values()))
                tree = self.lay_out(request)
                (tree / "input/config/resourceconfig.json").write_text(json.dumps(
                    {"current_host": "algo-1", "hosts": ["algo-1", "algo-2"], "network_interface_name": "lo"}))
                done = subprocess.run([KILN, "train", "--device", "cpu"], capture_output=True, text=True, timeout=60,
                                      env={**os.environ, "SAGEMAKER_BASE_DIR": str(tree), "CUDA_VISIBLE_DEVICES": "",
                                           "KILN_HOSTS_KEY": str(self.folder / "no_key")})
                self.assertIn("equivalent command: kiln launch --ranks=auto ", done.stdout, done.stderr)
                for words in told:
                    self.assertIn(words, done.stdout)
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                shutil.rmtree(tree)

    def score(self, model):
        """sagemaker/score.json, in the folders that SageMaker fills and empties, with the archive that it makes of a model."""
        job = json.loads((EXAMPLES / "sagemaker/score.json").read_text())
        processing = self.folder / "processing"
        places = {one["InputName"]: one["S3Input"]["LocalPath"] for one in job["ProcessingInputs"]}
        places |= {one["OutputName"]: one["S3Output"]["LocalPath"] for one in job["ProcessingOutputConfig"]["Outputs"]}
        self.assertEqual(places, {name: f"/opt/ml/processing/{name}" for name in ("model", "photos", "scores")})
        for name in ("model", "scores"):
            (processing / name).mkdir(parents=True)
        shutil.make_archive(processing / "model/model", "gztar", model)
        (processing / "photos").symlink_to(self.folder / "data/val")
        words = [word.replace("/opt/ml/processing", str(processing)) for word in job["AppSpecification"]["ContainerEntrypoint"]]
        path = f"{pathlib.Path(KILN).parent}:{os.environ['PATH']}"
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": path})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        images = sum(1 for path in (self.folder / "data/val").rglob("*") if path.is_file())
        self.assertEqual(len((processing / "scores/scores.csv").read_text().splitlines()), images + 1)

    def pack(self):
        """sagemaker/pack.json, likewise."""
        job = json.loads((EXAMPLES / "sagemaker/pack.json").read_text())
        processing = self.folder / "packing"
        processing.mkdir()
        (processing / "photos").symlink_to(self.folder / "data/train")
        words = [word.replace("/opt/ml/processing", str(processing)) for word in job["AppSpecification"]["ContainerEntrypoint"]]
        done = subprocess.run([KILN, *words[1:]], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"Packed \d+ images \(0 downscaled.*\) of \d+ classes into 1 shard, [\d.]+ MiB")
        self.assertIn("Images of each class: ", done.stdout)
        inspected = subprocess.run([KILN, "inspect", processing / "shards"], capture_output=True, text=True)
        self.assertEqual(inspected.returncode, 0, inspected.stderr)

    def lay_out(self, request):
        tree = self.folder / "ml"
        for below in ("input/config", "input/data", "model", "output/data"):
            (tree / below).mkdir(parents=True)
        if "CheckpointConfig" in request:
            (tree / "checkpoints").mkdir()
        for channel, part in zip(request["InputDataConfig"], ("train", "val")):
            (tree / "input/data" / channel["ChannelName"]).symlink_to(self.folder / "data" / part)
        channels = {channel["ChannelName"]: {
            "TrainingInputMode": "File",
            "S3DistributionType": channel["DataSource"]["S3DataSource"]["S3DataDistributionType"]}
            for channel in request["InputDataConfig"]}
        small = {"epochs": "1", "batch-size": "24", "num-warmup-steps": "0", "model-name": "resnet18"}
        files = {"hyperparameters": {**request["HyperParameters"], **small}, "inputdataconfig": channels,
                 "resourceconfig": {"current_host": "algo-1", "hosts": ["algo-1"]}}
        for name, content in files.items():
            (tree / f"input/config/{name}.json").write_text(json.dumps(content))
        return tree


class AllExamplesTest(unittest.TestCase):
    def test_every_example_is_named_in_a_test(self):
        """By its path in examples/."""
        tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("*") if path.suffix in (".py", ".sh"))
        paths = [str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".md")]
        forgotten = [path for path in paths if path not in tests]
        self.assertEqual(forgotten, [])


if __name__ == "__main__":
    main()
