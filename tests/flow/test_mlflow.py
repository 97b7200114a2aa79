"""Runs told to a real MLflow server, to servers that fail in every way, and to Kubeflow Pipelines."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from flow import KILN, files_below, main
from jobs import JobTest
from mlflow_server import BREAK, HANG, PACKAGES, MlflowServer, Relay

TOOL = os.environ.get("KILN_MLFLOW_TOOL", str(pathlib.Path(KILN).parent / "kiln_mlflow_tool"))
LARGEST = sys.float_info.max  # what MLflow keeps of infinity
TOKEN = "geheim-0815"
PAGE = (200, {"Content-Type": "text/html"}, b"<html>Please log in</html>")


class MlflowTest(JobTest):
    @classmethod
    def setUpClass(cls):
        cls.server_folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-mlflow-"))
        cls.addClassCleanup(shutil.rmtree, cls.server_folder, ignore_errors=True)
        cls.server = MlflowServer(cls.server_folder)
        cls.addClassCleanup(cls.server.stop)
        super().setUpClass()
        cls.server.wait()

    def relay(self, misbehave=lambda method, path, body: None):
        relay = Relay(self.server, misbehave)
        self.addCleanup(relay.stop)
        return relay

    def begin(self, uri, words=None, settings=None, **options):
        """A run of its own folder that is told to `uri`."""
        self.new_folder()
        words = words or [KILN, *self.train_arguments(**{"threads": 1, "loader_threads": 1, **options})]
        job = self.start_words(words, {"MLFLOW_TRACKING_URI": uri, "MLFLOW_TRACKING_TOKEN": TOKEN, **(settings or {})})
        job.folder = self.folder
        return job

    def assert_trained(self, job):
        self.assertEqual(job.end(), 0, job.output)
        self.assertTrue((job.folder / "model/_meta.yaml").exists())
        self.assert_token_is_nowhere(job)

    def assert_token_is_nowhere(self, job):
        for name, data in files_below(job.folder).items():
            self.assertNotIn(TOKEN.encode(), data, name)

    def told_metrics(self, job):
        """By name: (step, value), as metrics.jsonl has them."""
        told = {}
        for line in (job.folder / "logs/metrics.jsonl").read_text().splitlines():
            event = json.loads(line)
            step = event["epoch"] if event["event"] == "epoch" else 0
            if event["event"] == "step":
                step = (event["epoch"] - 1) * event["num_steps"] + event["step"]
            for name, value in event.get("metrics", {}).items():
                told.setdefault(name, []).append((step, value))
        return told

    def test_a_run_arrives_whole_although_the_server_stumbles(self):
        stumbles = [(429, {"Retry-After": "1"}, b"{}"), (500, {}, b"oops"), BREAK]

        def misbehave(_, path, body):
            return stumbles.pop(0) if stumbles and path.endswith("log-batch") and b'"metrics"' in body else None
        relay = self.relay(misbehave)
        job = self.begin(relay.url, settings={"MLFLOW_EXPERIMENT_NAME": "whole"}, epochs=3, print_freq=1, patience=9)
        self.assert_trained(job)
        self.assertFalse(stumbles)
        self.assertNotIn("  lost  ", job.output)
        (run,) = self.server.runs("whole")
        self.assertEqual(run["info"]["status"], "FINISHED")
        told = self.told_metrics(job)
        self.assertLessEqual({"Train loss", "Valid loss", "Top-1 validation accuracy", "Step/loss"}, set(told))
        for name, points in told.items():
            self.assertEqual(sorted(self.server.history(run, name)), points, name)
        params = {param["key"]: param["value"] for param in run["data"]["params"]}
        self.assertEqual((params["epochs"], params["model"], params["ranks"]), ("3", "resnet18", "1"))
        tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
        self.assertEqual(tags["training data"], str(self.data / "train"))
        self.assertLessEqual({"version", "commit", "device"}, set(tags))
        sent = files_below(next(self.server.artifacts.glob(f"*/{run['info']['run_id']}/artifacts")))
        self.assertEqual(set(sent), {"report.html", "training.json"})
        self.assertEqual(sent["training.json"], (job.folder / "model/training.json").read_bytes())
        self.assertIn(b"<img", (job.folder / "logs/report.html").read_bytes())
        self.assertNotIn(b"<img", sent["report.html"])
        self.assertEqual({headers["Authorization"] for _, _, headers, _ in relay.requests}, {f"Bearer {TOKEN}"})

        self.assert_evaluation_arrives(job.folder / "model")

    def assert_evaluation_arrives(self, model):
        words = [KILN, "evaluate", "--trained-model-path", model, "--trained-model-path", model, "--data-path",
                 self.data / "val", "--output-path", self.folder / "evaluation", "--device", "cpu"]
        job = self.start_words(words, {"MLFLOW_TRACKING_URI": self.server.url, "MLFLOW_EXPERIMENT_NAME": "evaluated"})
        self.assertEqual(job.end(), 0, job.output)
        (run,) = self.server.runs("evaluated")
        self.assertEqual(run["info"]["status"], "FINISHED")
        models = json.loads((self.folder / "evaluation/evaluation.json").read_text())["models"]
        self.assertEqual(self.server.history(run, "evaluation/top-1"),
                         [(step, one["top1"]) for step, one in enumerate(models, 1)])
        sent = files_below(next(self.server.artifacts.glob(f"*/{run['info']['run_id']}/artifacts")))
        self.assertEqual(set(sent), {"evaluation.html", "evaluation.json"})

    def test_odd_numbers_and_labels_are_taken(self):
        result = subprocess.run([TOOL, self.server.url], capture_output=True, text=True, timeout=120)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout.splitlines()[-1], "")
        (run,) = self.server.runs("odd")
        self.assertEqual(self.server.history(run, "Train loss"), [(1, "NaN"), (2, LARGEST)])
        self.assertEqual(self.server.history(run, "Valid loss")[0], (1, -LARGEST))
        names = {metric["key"] for metric in run["data"]["metrics"] if metric["key"].startswith("Recall/")}
        self.assertEqual(names, {"Recall/class _script_alert_1___script_", "Recall/class say _no__or_yes", "Recall/class ..",
                                 "Recall/class _______", "Recall/class " + "w" * 237, "Recall/class a_.._b"})

    def test_a_given_run_is_used_and_left_open(self):
        run_id = self.server.ask("runs/create", experiment_id="0", start_time=1)["run"]["info"]["run_id"]
        job = self.begin(self.server.url + "/", settings={"MLFLOW_RUN_ID": run_id})
        self.assert_trained(job)
        run = self.server.ask(f"runs/get?run_id={run_id}")["run"]
        self.assertEqual(run["info"]["status"], "RUNNING")
        self.assertEqual(len(self.server.history(run, "Train loss")), 1)

    def test_the_status_says_how_a_run_ended(self):
        stopped = self.begin(self.server.url, settings={"MLFLOW_EXPERIMENT_NAME": "stopped"}, epochs=10000, patience=10000)
        failed = self.begin(self.server.url, settings={"MLFLOW_EXPERIMENT_NAME": "failed"}, epochs=2, learning_rate=1000,
                            print_freq=1)
        stopped.wait_for("Epoch: [2")
        os.kill(stopped.process.pid, signal.SIGTERM)
        self.assertEqual((failed.end(), stopped.end()), (3, 143), failed.output + stopped.output)
        for experiment, status in (("stopped", "KILLED"), ("failed", "FAILED")):
            (run,) = self.server.runs(experiment)
            self.assertEqual(run["info"]["status"], status)

    def test_a_run_that_was_killed_continues_its_run_and_gets_no_step_twice(self):
        settings = {"MLFLOW_TRACKING_URI": self.server.url, "MLFLOW_EXPERIMENT_NAME": "resumed"}
        words = [KILN, *self.train_arguments(threads=1, loader_threads=1, epochs=6, patience=12, print_freq=1, batch_size=8,
                                             checkpoint_path=self.folder / "checkpoints", checkpoint_every="4steps")]
        killed = self.start_words(words, settings)
        killed.wait_for("Epoch: [2")
        self.wait_until(lambda: any(self.server.history(run, "Step/loss") for run in self.runs_so_far("resumed")))
        os.kill(killed.process.pid, signal.SIGKILL)
        killed.end()
        resumed = self.start_words(words, settings)
        resumed.folder = self.folder
        self.assertEqual(resumed.end(), 0, resumed.output)
        self.assertNotIn("  lost  ", resumed.output)
        (run,) = self.server.runs("resumed")
        self.assertEqual(run["info"]["status"], "FINISHED")
        for name, points in self.told_metrics(resumed).items():
            sent = sorted(self.server.history(run, name))
            self.assertEqual([step for step, _ in sent], [step for step, _ in points], name)
            if "oss" in name:  # times and rates of a repeated step differ
                self.assertEqual(sent, points, name)

    def runs_so_far(self, experiment):
        try:
            return self.server.runs(experiment)
        except OSError:  # there is no such experiment yet
            return []

    def wait_until(self, is_true, seconds=60):
        last = time.monotonic() + seconds
        while not is_true():
            self.assertLess(time.monotonic(), last)
            time.sleep(0.2)

    def test_only_rank_0_sends(self):
        relay = self.relay()
        words = self.words("mpirun", 2, epochs=1)
        job = self.begin(relay.url, settings={"MLFLOW_EXPERIMENT_NAME": "ranks"}, words=words)
        self.assertEqual(job.end(), 0, job.output)
        (run,) = self.server.runs("ranks")
        self.assertEqual(relay.count("runs/create"), 1)
        self.assertEqual(len(self.server.history(run, "Train loss")), 1)

    def failing_relays(self):
        """By name: a relay and what is said of it."""
        def dies(_, path, body):
            dies.dead |= path.endswith("log-batch") and b'"metrics"' in body
            return BREAK if dies.dead else None
        dies.dead = False
        gone = Relay(self.server)
        gone.stop()
        refused = (401, {"Content-Type": "application/json"}, json.dumps({"message": f"no {TOKEN}"}).encode())
        return {"down": (gone, "Failed to connect"),
                "refuses": (self.relay(lambda *_: refused), r"HTTP status 401 \(no \*\*\*\): check MLFLOW_TRACKING_TOKEN"),
                "elsewhere": (self.relay(lambda *_: (404, {}, b"<html>")), "HTTP status 404"),
                "fails": (self.relay(lambda *_: (500, {}, b"")), "HTTP status 500"),
                "garbage": (self.relay(lambda *_: PAGE), "the response is not JSON: a login page"),
                "hangs": (self.relay(lambda *_: HANG), "timed out"),
                "dies": (self.relay(dies), "Empty reply"),
                "busy": (self.relay(lambda *_: (429, {"Retry-After": "999"}, b"")), "HTTP status 429")}

    def test_no_failure_of_a_server_stops_training(self):
        relays = self.failing_relays()
        jobs = {name: self.begin(relay.url) for name, (relay, _) in relays.items()}
        for name, job in jobs.items():
            with self.subTest(server=name):
                self.assert_trained(job)
                relay, reason = relays[name]
                self.assertRegex(job.output, f"warning: MLflow at {relay.url} did not accept all data of this run: .*{reason}")
                self.assertEqual(job.output.count("did not accept all"), 1)
                lost = rf"^  lost +MLflow: (\d+) of \1 points.*could not be sent: .*{reason}"
                self.assertRegex(job.output, re.compile(lost, re.M))
        self.assertIn("training.json, how the run ended ", jobs["dies"].output)

    def test_a_run_id_that_does_not_exist_is_said(self):
        job = self.begin(self.server.url, settings={"MLFLOW_RUN_ID": "0" * 32})
        self.assert_trained(job)
        self.assertRegex(job.output, r"HTTP status 404 \(.*not found.*\): MLFLOW_RUN_ID must name a run of this server")

    def test_kubeflow_gets_its_file_and_file_stores_are_refused(self):
        given = {"name": "m", "uri": "s3://b/m", "type": {"schemaTitle": "system.Metrics"}}
        output_file = self.server_folder / "executor_output.json"
        outputs = {"artifacts": {"metrics": {"artifacts": [given]}}, "outputFile": str(output_file)}
        job = self.begin("file:///tmp/mlruns", kfp_executor_input=json.dumps({"inputs": {}, "outputs": outputs}))
        self.assert_trained(job)
        self.assertIn("warning: MLFLOW_TRACKING_URI ", job.output)
        told = {name: points[-1][1] for name, points in self.told_metrics(job).items() if "Step/" not in name}
        output = json.loads(output_file.read_text())
        made = {"name": "m", "uri": "s3://b/m", "metadata": told}
        self.assertEqual(output, {"artifacts": {"metrics": {"artifacts": [made]}}})


if __name__ == "__main__":
    if not PACKAGES.is_dir():
        print("SKIPPED: no MLflow in .deps/mlflow (environment/install.sh)")
        sys.exit(77)
    main()
