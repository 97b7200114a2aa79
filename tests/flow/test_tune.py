"""kiln tune: short trials of a training job, its fastest settings as a file for train, and nothing left behind."""
import os
import pathlib
import re
import signal
import subprocess
import time

from flow import KILN, FlowTest, kiln, main


class TuneTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "tmp"
        self.scratch.mkdir()
        self.tuned = self.folder / "tuned.yaml"

    def words(self, *own, **options):
        """Of a job whose precision and loader threads are given."""
        job = self.train_arguments(**{"batch_size": 4, "image_size": 16, "epochs": 50, "threads": None,
                                      "precision": "fp32", "loader_threads": 1, **options})
        return ["tune", "--output-path", self.tuned, "--steps", 5, *own, "--", *job]

    def environment(self):
        return {"TMPDIR": str(self.scratch)}

    def assert_nothing_left(self):
        """No outputs of trials, and none of the job's own; processes may take a moment."""
        self.assertFalse((self.folder / "model").exists())
        self.assertFalse((self.folder / "logs").exists())
        deadline = time.monotonic() + 20
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def processes(self):
        """Command lines of running processes that name this test's folder for temporary files."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes()
            except OSError:
                continue
            if bytes(self.scratch) in line:
                found.append(line)
        return found

    def start(self):
        tune = subprocess.Popen([KILN, *map(str, self.words())], env={**os.environ, **self.environment()},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(tune.stdout.close)
        self.addCleanup(tune.wait)
        self.addCleanup(tune.kill)
        deadline = time.monotonic() + 60
        while not self.processes() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertTrue(self.processes(), "no trial began")
        return tune

    def test_streams_are_refused(self):
        for option in ("train_data_path", "valid_data_path"):
            with self.subTest(option=option):
                path = self.folder / "images_{epoch}"
                result = kiln(*self.words(**{option: path}), environment=self.environment())
                self.assert_refused(result, 2, "is a stream, which can be read only once", str(path))
        self.assert_nothing_left()

    def test_its_file_is_refused_before_the_first_trial(self):
        inside = self.data / "train/circle/tuned.yaml"
        for path, exit_code, word in ((inside, 2, "is inside --train-data-path"),
                                      (self.folder / "model/tuned.yaml", 2, "is inside --trained-model-path"),
                                      (self.folder, 2, "contains --trained-model-path"),
                                      (self.scratch, 3, "Give the name of a file"),
                                      (self.folder / "none/tuned.yaml", 3, "Create the folder"),
                                      ("/proc/tuned.yaml", 3, "/proc/tuned.yaml")):
            with self.subTest(path=path):
                self.tuned = path
                result = kiln(*self.words(), environment=self.environment())
                self.assert_refused(result, exit_code, word)
                self.assertNotIn("images/s", result.stdout)
        self.assertFalse(inside.exists())
        self.assertEqual(os.listdir(self.scratch), [])

    def test_the_file_is_a_job_for_train(self):
        result = kiln(*self.words(), environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, "as given", "precision (given)", "loader-threads (given)")
        self.assertRegex(result.stdout, r"The others take about \d")
        text = self.tuned.read_text()
        self.assertIn("\nloader-threads: 1\n", text)
        self.assertNotIn(str(self.scratch), text)
        self.assert_nothing_left()
        self.assertEqual(list(self.scratch.glob("kiln-tune-*")), [])
        trained = kiln("train", "--config", self.tuned, "--epochs", 1, "--trained-model-path", self.folder / "model",
                       "--log-path", self.folder / "logs")
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)

    def test_short_epochs_are_measured_together(self):
        """An epoch has three steps here, and ten are to be measured: else a trial goes on for five minutes, as kiln() does."""
        job = self.words(batch_size=16, epochs=10000, patience=10000, ranks=1, threads=1)
        job[job.index("--steps") + 1] = 10
        result = kiln(*job, environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, r"\n *\d+\.\d +1\.00 .*as given")

    def test_the_file_has_what_the_line_has(self):
        """Not what the recipe makes of its length; a default that is given, and a limit of time."""
        given = {"recipe": "modern", "time-limit": "20min", "patience": "5", "ranks": "1", "threads": "1"}
        result = kiln(*self.words(**{name.replace("-", "_"): value for name, value in given.items()}),
                      environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        written = dict(line.split(": ", 1) for line in self.tuned.read_text().splitlines() if not line.startswith("#"))
        paths = {"untrained-model-path": str(self.untrained), "train-data-path": str(self.data / "train"),
                 "valid-data-path": str(self.data / "val")}
        self.assertEqual(written, {**paths, **given, "epochs": "50", "batch-size": "4", "device": "cpu", "image-size": "16",
                                   "precision": "fp32", "loader-threads": "1"})

    def test_ranks_learn_with_the_rate_of_the_job(self):
        """Which follows from the batch of one process."""
        words = self.words(untrained_model_path=None, model_name="resnet18", threads=1, batch_size=8)
        tune = subprocess.Popen([KILN, *map(str, words)], env={**os.environ, **self.environment()}, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.addCleanup(tune.stdout.close)
        tried = set()
        while tune.poll() is None:
            tried |= {line for line in self.processes() if b"--ranks=2" in line and b"--batch-size=4" in line}
            time.sleep(0.05)
        self.assertEqual(tune.returncode, 0, tune.stdout.read())
        self.assertTrue(tried)
        self.assertEqual([line for line in tried if b"--learning-rate=0.0024" not in line], [])

    def test_learning_rates_are_kept_by_their_loss(self):
        result = kiln(*self.words("--learning-rates", untrained_model_path=None, model_name="resnet18", ranks=1, threads=1),
                      environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(re.findall(r"learning rate (\S+) ", result.stdout), ["0.00012", "0.00036", "0.0012", "0.0036", "0.012"])
        self.assertIn("\nlearning-rate: ", self.tuned.read_text())

    def test_a_stop_signal_ends_it_with_nothing_written(self):
        tune = self.start()
        tune.send_signal(signal.SIGTERM)
        output, _ = tune.communicate(timeout=60)
        self.assertEqual(tune.returncode, 143, output)
        self.assertFalse(self.tuned.exists())
        self.assert_nothing_left()
        self.assertEqual(list(self.scratch.glob("kiln-tune-*")), [])

    def test_killed_it_leaves_no_process(self):
        tune = self.start()
        tune.kill()
        tune.wait()
        self.assert_nothing_left()
        self.assertFalse(self.tuned.exists())

    def test_a_job_that_cannot_run_says_why(self):
        result = kiln(*self.words(train_data_path=self.folder / "nowhere"), environment=self.environment())
        self.assert_refused(result, 1, "nowhere")
        self.assertFalse(self.tuned.exists())
        for words in (["tune"], ["tune", "--", "score"]):
            refused = kiln(*words)
            self.assertIn(refused.returncode, (1, 2), refused.stdout + refused.stderr)
            self.assertFalse(pathlib.Path("tuned.yaml").exists())


if __name__ == "__main__":
    main()
