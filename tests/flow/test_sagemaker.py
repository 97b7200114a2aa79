"""`kiln train` in the folder that Amazon SageMaker lays out, made up here: one host, success and failure."""
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from flow import KILN, FlowTest, assert_resumed, become_nobody, kiln, main, start_until

CHANNELS = {"train": "train", "validation": "val"}


class SageMakerTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.tree = self.folder / "ml"
        for name in ("input/config", "input/data", "model", "output/data"):
            (self.tree / name).mkdir(parents=True)

    def lay_out(self, hyperparameters=(), channels=CHANNELS, with_model=True, **modes):
        """The tree for one host; channels are links to demo data, hyperparameters texts as the SDK sends them."""
        channels = dict(channels)
        for channel, part in channels.items():
            (self.tree / "input/data" / channel).symlink_to(self.data / part)
        if with_model:
            (self.tree / "input/data/model").symlink_to(self.untrained)
            channels["model"] = ""
        self.write("inputdataconfig", {name: {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated",
                                              "RecordWrapperType": "None", **modes} for name in channels})
        self.write("resourceconfig", {"current_host": "algo-1", "hosts": ["algo-1"], "network_interface_name": "eth0"})
        self.write("hyperparameters", {"epochs": "1", "batch_size": "24", "threads": "2", "device": "\"cpu\"",
                                       **dict(hyperparameters)})

    def write(self, name, content):
        (self.tree / f"input/config/{name}.json").write_text(json.dumps(content))

    def start(self, *arguments, more=(), **settings):
        places = {"SAGEMAKER_BASE_DIR": str(self.tree), "TRAINING_JOB_NAME": "shapes-7"}
        return kiln("train", *arguments, environment={**places, **dict(more)},
                    cwd=self.folder, **settings)

    def failure(self):
        return (self.tree / "output/failure").read_text()

    def assert_trained(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(kiln("inspect", self.tree / "model").returncode, 0)
        self.assertFalse((self.tree / "output/failure").exists())

    def assert_failed(self, result, code, *words):
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assert_names(self.failure(), *words)
        self.assert_names(result.stderr, *words)
        self.assertLessEqual(len(self.failure().encode()), 1024)
        self.assertFalse((self.tree / "model/_meta.yaml").exists())


class SuccessTest(SageMakerTest):
    def test_trains_as_the_same_options_do_elsewhere(self):
        """Over what an earlier run left, with arguments of the container, hyperparameters of the SDK, and no place for
        checkpoints; what it prints has the metrics where their definitions look for them."""
        self.lay_out({"learning-rate": "0.01", "save": "\"last\"", "sagemaker_program": "\"train.py\"",
                      "sagemaker_mpi_custom_mpi_options": "-x A=1 -verbose", "sagemaker_distribution_instance_groups": "[\"a\"]"})
        (self.tree / "output/failure").write_text("of an earlier run")
        result = self.start("--augment", "flip")
        self.assert_trained(result)
        self.assert_names(result.stdout, "shapes-7", "algo-1", " A\n", "'-verbose'")
        self.assertEqual(self.train(learning_rate=0.01, save="last", augment="flip").returncode, 0)
        self.assertEqual((self.tree / "model/model").read_bytes(), (self.folder / "model/model").read_bytes())
        self.assertTrue((self.tree / "output/data/logs/70_driver_log_0.txt").exists())
        self.assertFalse((self.tree / "checkpoints").exists())
        definitions = json.loads(kiln("describe", "--format", "sagemaker-metrics").stdout)
        self.assertGreaterEqual(len(definitions), 6)
        for definition in definitions:
            self.assertEqual(len(re.findall(definition["Regex"], result.stdout)), 1, definition)

    def test_goes_on_from_yesterdays_model(self):
        """Incremental training: the channel `model` holds what a job left, as SageMaker packs it, or unpacked."""
        self.lay_out({"learning-rate": "0.01", "save": "last"})
        packed = self.folder / "packed"
        packed.mkdir()
        subprocess.run(["tar", "-czf", packed / "model.tar.gz", "-C", self.trained_model, "."], check=True)
        made = []
        for channel in (packed, self.trained_model):
            with self.subTest(channel=channel.name):
                link = self.tree / "input/data/model"
                link.unlink()
                link.symlink_to(channel)
                result = self.start()
                self.assert_trained(result)
                self.assertRegex(result.stdout, r"weights: +122 of 122 tensors from '.*/model' \(a trained model\)")
                made.append((self.tree / "model/model").read_bytes())
                shutil.rmtree(self.tree / "model")
        self.assertTrue(made[0] == made[1], "the models differ")

    def test_trains_a_network_by_name_where_no_channel_brings_one(self):
        """What stands in the log after "as:" can be given to a shell."""
        self.tree = self.tree.rename(self.folder / "my ml")
        self.lay_out({"model_name": "\"resnet18\"", "random_seed": "1"}, with_model=False)
        result = self.start()
        self.assert_trained(result)
        self.assertEqual(self.train(untrained_model_path=None, model_name="resnet18").returncode, 0)
        self.assertEqual((self.tree / "model/model").read_bytes(), (self.folder / "model/model").read_bytes())
        run, = re.findall(r"equivalent command: kiln (.*)", result.stdout)
        self.assertLessEqual({"--model-name=resnet18", f"--log-path={self.tree}/output/data/logs"}, set(shlex.split(run)))

    def test_splits_the_images_of_one_channel(self):
        """Fine-tuning with a channel for the images and one for the weights, as the same options do it elsewhere."""
        weights = self.tree / "input/data/weights"
        self.lay_out({"model_name": "resnet18", "weights": str(weights / "model"), "freeze": "backbone", "folds": "3",
                      "time_limit": "\"10min\""}, {"training": "train"}, with_model=False)
        weights.symlink_to(self.untrained)
        result = self.start()
        self.assert_trained(result)
        run, = re.findall(r"equivalent command: kiln (.*)", result.stdout)
        self.assertIn(f"--data-path={self.tree}/input/data/training", shlex.split(run))
        self.assertRegex(result.stdout, r"out of fold +\d+\.\d % .*, in 3 folds")
        self.assertTrue((self.tree / "output/data/logs/report.html").exists())
        elsewhere = self.train(untrained_model_path=None, train_data_path=None, valid_data_path=None, time_limit="10min",
                               data_path=self.data / "train", model_name="resnet18", weights=self.untrained / "model",
                               freeze="backbone", folds=3)
        self.assertEqual(elsewhere.returncode, 0, elsewhere.stderr)
        self.assertEqual((self.tree / "model/model").read_bytes(), (self.folder / "model/model").read_bytes())

    def test_starts_several_ranks(self):
        self.lay_out({"sagemaker_mpi_num_of_processes_per_host": "2", "threads": "1"})
        result = self.start()
        self.assert_trained(result)
        logs = {path.name for path in (self.tree / "output/data/logs").iterdir()}
        self.assertLessEqual({"70_driver_log_0.txt", "70_driver_log_1.txt", "70_mpi_log.txt"}, logs)

    def test_stopped_job_keeps_its_model(self):
        self.lay_out({"epochs": "100000", "patience": "100000"})
        job = subprocess.Popen([KILN, "train"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.folder,
                               env={**os.environ, "SAGEMAKER_BASE_DIR": str(self.tree)})
        self.addCleanup(job.kill)
        for line in job.stdout:
            if line.startswith("Epoch 2,"):
                break
        begin = time.monotonic()
        job.send_signal(signal.SIGTERM)
        output, _ = job.communicate()
        self.assertEqual(job.returncode, 143, output)
        self.assertLess(time.monotonic() - begin, 100, "SageMaker kills after 120 s")
        self.assertEqual(kiln("inspect", self.tree / "model").returncode, 0)


class SpotTest(SageMakerTest):
    """Managed spot training: the instance is taken away, and another one finds the checkpoints and nothing else."""
    EPOCHS = 6

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.straight = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, cls.straight)
        result = kiln("train", "--untrained-model-path", cls.untrained, "--train-data-path", cls.data / "train",
                      "--valid-data-path", cls.data / "val", "--trained-model-path", cls.straight / "model",
                      "--log-path", cls.straight / "logs", "--epochs", cls.EPOCHS, "--patience", 100, "--learning-rate", 0.01,
                      "--batch-size", 24, "--threads", 2, "--device", "cpu")
        assert result.returncode == 0, result.stderr

    def lay_out_spot(self, host):
        self.lay_out({"epochs": str(self.EPOCHS), "patience": "100", "learning-rate": "0.01"})
        self.write("resourceconfig", {"current_host": host, "hosts": [host]})

    def take_away(self, number):
        """A job until its instance goes; then the tree of another one."""
        (self.tree / "checkpoints").mkdir()
        self.lay_out_spot("algo-1")
        job = start_until(self, "Epoch 4,", [KILN, "train"], cwd=self.folder,
                          env={**os.environ, "SAGEMAKER_BASE_DIR": str(self.tree)})
        job.send_signal(number)
        job.communicate(timeout=100)
        restored = self.folder / "restored"
        shutil.move(self.tree / "checkpoints", restored)
        shutil.rmtree(self.tree)
        for name in ("input/config", "input/data", "model", "output/data"):
            (self.tree / name).mkdir(parents=True)
        shutil.move(restored, self.tree / "checkpoints")
        self.lay_out_spot("algo-7")
        return job.returncode

    def assert_goes_on(self):
        result = self.start()
        assert_resumed(self, result, self.tree / "model", self.tree / "output/data/logs", self.EPOCHS)
        self.assertEqual((self.tree / "model/model").read_bytes(), (self.straight / "model/model").read_bytes())

    def test_resumes_after_a_notice(self):
        self.assertEqual(self.take_away(signal.SIGTERM), 143)
        self.assert_goes_on()

    def test_resumes_without_a_notice(self):
        self.assertEqual(self.take_away(signal.SIGKILL), -signal.SIGKILL)
        self.assert_goes_on()


class FailureTest(SageMakerTest):
    def test_faults_of_the_job_and_of_the_command_come_together(self):
        """tests/tools/sagemaker/sagemaker_test.cpp has the other ways in which a job can be wrong."""
        self.lay_out({"epochs": "zero", "batchsize": "64", "random_seed": "x"}, with_model=False)
        result = self.start()
        self.assert_failed(result, 2, "'batchsize' is not a hyperparameter", "--epochs is 'zero'", "--random-seed is 'x'")
        self.assertEqual(self.failure().count("--random-seed"), 1)
        info = self.tree / "output/data/logs/module_statistics/error_info.json"
        self.assert_names(json.loads(info.read_text())["Exception"]["Message"], "batchsize", "zero")

    def test_a_long_value_leaves_room_for_the_advice(self):
        self.lay_out({"augment": "x" * 100000})
        self.assert_failed(self.start(), 2, "but must be none, standard, strong or a list of")

    def test_key_of_several_hosts(self):
        if shutil.which("ssh-keygen") is None:
            self.skipTest("the program ssh-keygen is not installed")
        self.lay_out()
        self.write("resourceconfig", {"current_host": "algo-2", "hosts": ["algo-1", "algo-2"]})
        key = self.folder / "hosts_key"
        key.write_text("no key")
        self.assert_failed(self.start(more={"KILN_HOSTS_KEY": str(key)}), 1, f"'{key}' is not a private key", "libcrypto): create one")
        if not os.path.exists("/etc/kiln/hosts_key"):
            self.assert_failed(self.start(more={"KILN_HOSTS_KEY": ""}), 1, "'/etc/kiln/hosts_key'")

    def test_no_network_of_this_name(self):
        self.lay_out({"model_name": "resnet19"}, with_model=False)
        self.assert_failed(self.start(), 1, "resnet19")

    def test_bad_data(self):
        self.lay_out({"batch_size": "1000"})
        self.assert_failed(self.start(), 1, "Batch size")

    def as_nobody(self):
        """Settings of a start by another user than root, for whom output/ is open."""
        self.folder.chmod(0o755)
        if os.geteuid() == 0:
            self.need_nobody()
        for folder in (self.tree / "output", self.tree / "output/data"):
            folder.chmod(0o777)
        return {"preexec": become_nobody if os.geteuid() == 0 else None}

    def test_read_only_model_folder(self):
        self.lay_out()
        settings = self.as_nobody()
        (self.tree / "model").chmod(0o555)
        result = self.start(**settings)
        self.assert_failed(result, 3, str(self.tree / "model"))

    def test_failing_rank(self):
        self.lay_out({"sagemaker_mpi_num_of_processes_per_host": "2", "batch_size": "25"})
        self.assert_failed(self.start(), 1, "25 on each of 2 ranks")

    def test_without_the_tree_train_asks_for_its_paths(self):
        shutil.rmtree(self.tree / "input")
        result = self.start()
        self.assert_refused(result, 2, "--train-data-path")


class KubernetesTest(FlowTest):
    def test_failure_comes_into_the_termination_log(self):
        """/dev/termination-log, in a private /dev that has little more than it."""
        nodes = ["null", "zero", "full", "random", "urandom"]
        script = "; ".join(["set -e", f"cd '{self.folder}'", "mkdir dev",
                            *(f"touch dev/{node}; mount --bind /dev/{node} dev/{node}" for node in nodes),
                            "echo old > dev/termination-log", "mount --rbind dev /dev",
                            f"'{KILN}' convert --input-path nowhere --output-path made || cat /dev/termination-log"])
        done = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], capture_output=True,
                              text=True)
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest("a private mount namespace is not permitted here: " + done.stderr.strip())
        self.assertIn("nowhere", done.stdout)
        self.assertNotIn("old", done.stdout)


if __name__ == "__main__":
    main()
