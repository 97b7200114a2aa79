"""A model, an hour of training and a run's logs are never lost by default: what a run replaces is kept, a run that dies leaves its
best epoch, and a run has one folder (newcomer A3, A6, B15, C12)."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

from flow import KILN, FlowTest, files_below, kiln, main


class Kept(FlowTest):
    def setUp(self):
        super().setUp()
        self.model, self.before = self.folder / "model", self.folder / "model.before"
        self.logs, self.logs_before = self.folder / "logs", self.folder / "logs.before"

    def run_ok(self, *words, environment=None):
        result = kiln(*words, environment=environment)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result

    def train_ok(self, environment=None, **options):
        return self.run_ok(*self.train_arguments(**options), environment=environment)

    def seed(self, model):
        return int(json.loads((model / "training.json").read_text())["options"]["random-seed"])

    def seed_of_logs(self, logs):
        return int(json.loads((logs / "metrics.jsonl").read_text().splitlines()[0])["options"]["random-seed"])

    def set_top1(self, model, value):
        told = json.loads((model / "training.json").read_text())
        for epoch in told["epochs"]:
            epoch["top1"] = value
        (model / "training.json").write_text(json.dumps(told))

    def end(self, logs=None):
        return json.loads(((logs or self.logs) / "metrics.jsonl").read_text().splitlines()[-1])

    def start(self, **options):
        process = subprocess.Popen([KILN, *self.train_arguments(**options)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def kill_once(self, process, has_come):
        end = time.monotonic() + 60
        while not has_come() and process.poll() is None:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.002)
        process.kill()
        process.wait()


class Replaced(Kept):
    def test_what_a_run_replaces_is_kept(self):
        """A3: the model in NAME.before, the logs in LOGS.before; what is better on the same images stays there."""
        self.train_ok(random_seed=1)
        first, logs = files_below(self.model), files_below(self.logs)
        second = self.train_ok(random_seed=2)
        self.assertEqual(files_below(self.before), first)
        self.assertEqual(files_below(self.logs_before), {name: data for name, data in logs.items() if name != ".kiln-lock"})
        self.assert_names(second.stdout, "model.before", "replaced")
        self.assertIn("same images", self.end()["replaced"])
        self.assertEqual((self.seed(self.model), self.seed_of_logs(self.logs)), (2, 2))
        self.assertEqual([path.name for path in self.logs.glob("*.before*")], [])
        self.run_ok("compare", self.logs, self.logs_before, "--output-path", self.folder / "compare.html")
        self.set_top1(self.before, 2)
        self.assert_names(self.train_ok(random_seed=3).stdout, "model.before", "better")
        self.assertEqual((self.seed(self.model), self.seed(self.before), self.seed_of_logs(self.logs_before)), (3, 1, 1))
        self.set_top1(self.before, -1)
        (self.folder / "link").symlink_to(self.model)
        self.train_ok(random_seed=4, trained_model_path=str(self.folder / "link") + "/")
        self.assertEqual((self.seed(self.model), self.seed(self.before), self.seed_of_logs(self.logs_before)), (4, 3, 3))
        self.assertFalse((self.folder / "link.before").exists())

    def test_logs_wait_for_a_run_that_finishes_an_epoch(self):
        """C12: a run that fails at its first line leaves the driver log of the one before."""
        self.train_ok(random_seed=1)
        driver, record = ((self.logs / name).read_bytes() for name in ("70_driver_log_0.txt", "metrics.jsonl"))
        for _ in range(2):
            self.assertEqual(self.train(train_data_path=self.folder / "none").returncode, 1)
            self.assertEqual((self.logs / "70_driver_log_0.before.txt").read_bytes(), driver)
        self.assertEqual((self.logs / "metrics.jsonl").read_bytes(), record)
        self.assertTrue((self.logs / "report.html").exists())
        self.assertFalse(self.before.exists() or self.logs_before.exists())
        self.train_ok(random_seed=2)
        self.assertEqual((self.logs_before / "70_driver_log_0.txt").read_bytes(), driver)
        self.assertEqual((self.logs_before / "metrics.jsonl").read_bytes(), record)

    def test_where_nothing_is_kept(self):
        """On a platform, and where NAME.before is somebody else's; what a run reads from there stays."""
        self.train_ok(random_seed=1)
        platform = {"AZUREML_RUN_ID": "run"}
        self.train_ok(random_seed=2, environment=platform, log_path=self.folder / "azure")
        self.assertFalse(self.before.exists())
        self.before.mkdir()
        (self.before / "photo.jpg").write_text("mine")
        self.assert_names(self.train_ok(random_seed=3).stdout, "model.before", "other files")
        self.assertEqual(files_below(self.before), {"photo.jpg": b"mine"})
        shutil.rmtree(self.before)
        shutil.copytree(self.trained_model, self.before)
        self.train_ok(random_seed=4, untrained_model_path=self.before)
        self.assertEqual(files_below(self.before), files_below(self.trained_model))

    def test_kills_around_the_replacement(self):
        """kill -9: the model of before is whole under its name or in NAME.before, and the new one is whole or absent."""
        draw = random.Random(1)
        self.train_ok(random_seed=100)
        seeds = [100]
        moments = [lambda: self.logs_before.exists(), lambda: any(self.before.glob(".kiln-*")),
                   lambda: any(self.model.glob(".kiln-*")), lambda: (self.model / ".kiln-journal").exists()]
        for number in range(len(moments)):
            kept = self.seed(self.model)
            process = self.start(random_seed=number)
            self.kill_once(process, moments[number])
            time.sleep(draw.uniform(0, 0.01))
            whole = [path for path in (self.model, self.before) if kiln("inspect", path).returncode == 0]
            self.assertIn(kept, [self.seed(path) for path in whole], f"kill {number}")
            self.assertIn(self.model, whole)
            seeds.append(number)
            self.assertIn(self.seed(self.model), seeds)
            self.assertEqual([path.name for path in whole for path in path.glob(".kiln-journal")], [])
        self.train_ok(random_seed=7)
        self.assertEqual((self.seed(self.model), [*self.before.glob(".kiln-*")]), (7, []))


class RunPath(Kept):
    def test_a_run_has_one_folder(self):
        """B15: --run-path holds model, logs and checkpoints, and what takes one of them takes the run."""
        runs = [self.folder / "runs" / name for name in ("one", "two")]
        words = {"trained_model_path": None, "log_path": None}
        self.train_ok(run_path=runs[0], **words)
        self.assertEqual({path.name for path in runs[0].iterdir()}, {"model", "logs", "checkpoints"})
        self.train_ok(run_path=runs[1], **words, checkpoint_path=self.folder / "elsewhere", random_seed=2)
        self.assertEqual({path.name for path in runs[1].iterdir()}, {"model", "logs"})
        self.assertTrue(self.folder.joinpath("elsewhere").is_dir())
        scores = self.folder / "scores.csv"
        self.run_ok("score", self.data / "val", "--trained-model-path", runs[0], "--output-path", scores)
        self.run_ok("evaluate", self.data / "val", "--trained-model-path", runs[0], "--trained-model-path", runs[1],
                    "--output-path", self.folder / "evaluation")
        self.run_ok("export", "--trained-model-path", runs[1], "--output-path", self.folder / "model.onnx")
        self.assertEqual(json.loads(self.run_ok("inspect", runs[0], "--json").stdout)["path"], str(runs[0] / "model"))
        self.run_ok("report", runs[0])
        self.run_ok("compare", *runs, "--output-path", self.folder / "compare.html")
        self.run_ok("init-model", "resnet18", "--weights", runs[0], "--untrained-model-path", self.folder / "made")
        again = self.train_ok(run_path=runs[0], **words)
        self.assertIn("already finished", again.stdout)
        other = self.train_ok(run_path=runs[0], **words, random_seed=3)
        self.assert_names(other.stdout, "checkpoints.before", "model.before", "random-seed")
        self.assertEqual((self.seed(runs[0] / "model"), self.seed(runs[0] / "model.before")), (3, 1))
        self.assertEqual(self.seed_of_logs(runs[0] / "logs.before"), 1)

    def test_words_of_others(self):
        for words, folder in ((["--project", "runs", "--name", "exp"], "runs/exp"), (["--name", "exp", "--project=runs"], "runs/exp"),
                              (["--output_dir", "out"], "out"), (["name=exp"], "exp")):
            with self.subTest(words=words):
                told = kiln("train", self.data, *words)
                self.assertEqual(told.returncode, 2)
                self.assertIn(f"--run-path {folder}`", told.stderr)


class Died(Kept):
    def killed(self, **options):
        """A run that was killed once it had a checkpoint and a best epoch."""
        process = self.start(checkpoint_every="1epoch", epochs=8, patience=100, **options)
        best, checkpoint = self.logs / "best/_meta.yaml", self.logs / "checkpoint"
        self.kill_once(process, lambda: best.exists() and any(checkpoint.glob("*/checkpoint.json")))

    def test_a_killed_run_leaves_its_best_epoch_and_goes_on(self):
        """A6: LOGS/best is a model, the report names it, and the same command resumes and removes both."""
        self.killed()
        self.run_ok("score", self.data / "val", "--trained-model-path", self.logs / "best", "--output-path",
                    self.folder / "scores.csv")
        self.run_ok("report", self.logs)
        self.assertIn(str(self.logs / "best"), (self.logs / "report.html").read_text())
        resumed = self.train_ok(checkpoint_every="1epoch", epochs=8, patience=100)
        self.assert_names(resumed.stdout, "--resume never", "checkpoint")
        self.assertFalse((self.logs / "best").exists() or (self.logs / "checkpoint").exists())
        self.assertEqual([epoch["epoch"] for epoch in self.training()["epochs"]], list(range(1, 9)))

    def test_what_does_not_fit_is_set_aside(self):
        """Other options or other data are never an error, but with --resume require."""
        self.killed()
        data = self.copy_data()
        shutil.copy(next(data.glob("*/*")), next(path for path in data.iterdir() if path.is_dir()) / "another.jpg")
        refused = self.train(checkpoint_every="1epoch", epochs=8, patience=100, resume="require", random_seed=2)
        self.assertEqual(refused.returncode, 1)
        self.assert_names(refused.stderr, "--random-seed")
        other = self.train_ok(epochs=1, train_data_path=data, patience=100)
        self.assert_names(other.stdout, "checkpoint.before", "best.before", "training data")
        self.assertFalse((self.logs / "best").exists() or (self.logs / "checkpoint").exists())
        self.assertEqual(kiln("inspect", self.logs / "best.before").returncode, 0)
        self.assertEqual(kiln("inspect", self.logs / "checkpoint.before").returncode, 0)

    def test_a_stop_by_a_signal_and_platforms_leave_neither(self):
        process = self.start(checkpoint_every="1epoch", epochs=4000, patience=4000)
        while not (self.logs / "best/_meta.yaml").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60), 128 + signal.SIGTERM)
        self.assertTrue((self.model / "_meta.yaml").exists())
        self.assertFalse((self.logs / "best").exists() or (self.logs / "checkpoint").exists())
        on_platform = kiln(*self.train_arguments(checkpoint_every="1epoch"), environment={"AZUREML_RUN_ID": "run"},
                           cwd=self.folder)
        self.assertEqual(on_platform.returncode, 2, on_platform.stderr)
        self.assert_names(on_platform.stderr, "--checkpoint-path")


class Container(Kept):
    # The root becomes an overlay, of which `/` and all else are; $1 is its place, a folder of the test.
    ENTER = """mount -t tmpfs none "$1" && mkdir "$1/upper" "$1/work" "$1/root" &&
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root" &&
        mount --rbind /proc "$1/root/proc" && mount --rbind /dev "$1/root/dev" && folder=$2 root=$1/root && shift 2 &&
        exec chroot "$root" sh -c 'mkdir -p "$0" && cd "$0" && exec "$@"' "$folder" "$@" """
    HERE = pathlib.Path("/var/tmp/kiln-lost")  # on that root, wherever the test's own folder is

    def in_container(self, *words):
        place = self.folder / "container"
        place.mkdir(exist_ok=True)
        command = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", self.ENTER, "sh", place, self.HERE, *words]
        return subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100)

    def test_what_is_lost_with_a_container_is_told(self):
        """A4: at the start and at the end, for outputs whose path was not given; paths at the end are absolute."""
        if self.in_container("true").returncode != 0:
            self.skipTest("no overlay can be mounted")
        words = self.train_arguments(trained_model_path=None, log_path=None)
        run = self.in_container(KILN, *words)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        lines = [line for line in run.stdout.splitlines() if '-v "$PWD:/data" -w /data' in line]
        self.assertEqual(len(lines), 2, run.stdout)
        self.assert_names(lines[0], "'model'", "'logs'")
        self.assertEqual(lines[1], run.stdout.splitlines()[-1])
        self.assert_names(run.stdout, self.HERE / "model", self.HERE / "logs/report.html")
        given = self.in_container(KILN, *self.train_arguments())
        self.assertNotIn("/data", given.stdout.replace(str(self.data), ""))
        outside = kiln(*words, cwd=self.folder)
        self.assertNotIn("-w /data", outside.stdout)


if __name__ == "__main__":
    main()
