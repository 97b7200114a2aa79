"""Limits of the system and of the job that a run meets, through the real program: threads, file sizes, several processes at
one output, ranks that were started apart, and images that are bad."""
import contextlib
import csv
import fcntl
import http.server
import json
import os
import resource
import shutil
import subprocess
import threading
import time

from flow import KILN, FlowTest, kiln, main
from jobs import JobTest

IN_USE = "is in use by another run, which is writing to it"


def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


class ThreadsTest(FlowTest):
    """Hostile B2 and B3: a limit of processes at which LibTorch would wait forever, or libgomp end the process."""

    def commands(self):
        model = ["--trained-model-path", self.trained_model]
        data = ["--data-path", self.data / "val", "--threads", 2]
        return {"score": ["score", *model, *data, "--output-path", self.folder / "scores.csv"],
                "evaluate": ["evaluate", *model, *data, "--output-path", self.folder / "evaluation"],
                "audit": ["audit", *model, *data, "--output-path", self.folder / "audit"],
                "serve": ["serve", *model, "--threads", 2, "--port", 0],
                "train": self.train_arguments(),
                "export": ["export", *model, "--output-path", self.folder / "model.onnx"],
                "init-model": ["init-model", "resnet18", "--untrained-model-path", self.folder / "new"]}

    def test_a_command_that_computes_says_that_no_thread_can_be_made(self):
        self.folder.chmod(0o777)
        if os.geteuid() == 0:
            self.need_nobody()

        def few(processes):
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
            limited(resource.RLIMIT_NPROC, processes)()
            if os.geteuid() == 0:
                os.setuid(65534)
        for name, words in self.commands().items():
            if name in ("export", "init-model") and len(os.sched_getaffinity(0)) < 2:
                continue
            for processes in (1, 2) if name in ("score", "train") else (2,):
                with self.subTest(name, processes=processes):
                    self.assert_refused(kiln(*words, preexec=lambda: few(processes)), 3, "ulimit -u", "--threads")

    def test_random_numbers_need_a_device(self):
        """Hostile B17."""
        words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh"]
        if subprocess.run([*words, "true"], capture_output=True).returncode != 0:
            self.skipTest("nothing can be mounted here")
        for command in (self.commands()["init-model"], self.train_arguments()):
            result = subprocess.run([*words, KILN, *map(str, command)], capture_output=True, text=True, timeout=60)
            self.assert_refused(result, 3, "/dev/urandom")


class FileSizeTest(FlowTest):
    """Case 111, and hostile B15: what a failed command made is gone."""

    def test_a_model_that_cannot_be_written_is_not_trained(self):
        for checkpoints in (None, self.folder / "checkpoints"):
            result = kiln(*self.train_arguments(checkpoint_path=checkpoints), preexec=limited(resource.RLIMIT_FSIZE, 40 << 20))
            self.assert_fails(result, 3, 160, "ulimit -f")
            self.assertNotIn("Epoch 1", result.stdout)
            self.assertNotIn("space", result.stderr)

    def test_every_writer_names_the_limit_and_leaves_nothing(self):
        """Each into a new folder in a new folder, if it makes both."""
        model = ["--trained-model-path", self.trained_model]
        into, chain = self.folder / "new/output", self.folder / "chain"
        self.assertEqual(kiln("transform", "init", "--output-path", chain, "--random-horizontal-flip", "True").returncode, 0)
        commands = [(200, ["evaluate", *model, "--data-path", self.data / "val", "--output-path", into]),
                    (200, ["convert", self.data / "train", into]),
                    (200, ["pack", self.data / "train", into]),
                    (200, ["transform", "apply", "--mode", "For training", "--input-image-transform-path", chain,
                           "--input-image-dir-path", self.data / "train", "--output-path", into]),
                    (200, ["demo-data", into, "--images", 6]),
                    (1 << 20, ["init-model", "resnet18", "--untrained-model-path", into]),
                    (1 << 20, ["export", *model, "--format", "mlflow", "--output-path", into])]
        for limit, words in commands:
            with self.subTest(words[0]):
                result = kiln(*words, preexec=limited(resource.RLIMIT_FSIZE, limit))
                self.assert_refused(result, 3, "ulimit -f")
                self.assertNotIn("space", result.stderr)
                self.assertFalse(into.parent.exists())
        result = kiln("score", *model, "--data-path", self.data / "val", "--output-path", self.folder / "scores.csv",
                      preexec=limited(resource.RLIMIT_FSIZE, 200))
        self.assert_refused(result, 3, "ulimit -f", "scores.csv")
        self.assertNotIn("space", result.stderr)
        self.assertEqual(list(self.folder.glob("scores*")), [])


class BadImagesTest(FlowTest):
    def photos(self, good, bad):
        folder = self.folder / f"photos-{good}-{bad}"
        folder.mkdir()
        pictures = sorted((self.data / "val").rglob("*.png"))
        for number in range(good):
            shutil.copy(pictures[number % len(pictures)], folder / f"good{number}.png")
        for number in range(bad):
            (folder / f"bad{number}.png").write_bytes(b"no image")
        return folder

    def score(self, data, *options):
        return kiln("score", "--trained-model-path", self.trained_model, "--data-path", data, "--output-path",
                    self.folder / "scores.csv", "--device", "cpu", *options)

    def test_score_writes_its_file_and_judges_it_then(self):
        """The default is 3 images or 1 %, but less than half; what is given means what it says."""
        for good, bad, options, code in ((2, 2, (), 1), (4, 3, (), 0), (5, 4, (), 1), (2, 2, ("--max-bad-images", 2), 0),
                                         (2, 2, ("--max-bad-images", "50%"), 0), (4, 1, ("--max-bad-images", 0), 1), (0, 2, (), 1),
                                         (4, 3, ("--max-bad-images", "auto"), 0)):
            with self.subTest(good=good, bad=bad, options=options):
                data = self.folder / f"photos-{good}-{bad}"
                result = self.score(data if data.exists() else self.photos(good, bad), *options)
                self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                with open(self.folder / "scores.csv", newline="") as file:
                    rows = list(csv.DictReader(file))
                self.assertEqual(sorted(bool(row["fault"]) for row in rows), [False] * good + [True] * bad)
                self.assertEqual([path.name for path in self.folder.glob("scores*")], ["scores.csv"])
                (self.folder / "scores.csv").unlink()
                if code == 1:
                    self.assert_names(result.stderr, "bad0.png", "not an image")
        part = self.score(self.folder / "photos-2-2", "--part", "1/1")
        self.assertEqual(part.returncode, 1, part.stderr)
        self.assertEqual(sorted(path.name for path in self.folder.glob("scores*")), ["scores.part-1-of-1.csv", "scores.part-1-of-1.csv.json"])

    def test_a_printed_answer_is_judged_too(self):
        result = kiln("score", self.photos(1, 1), "--trained-model-path", self.trained_model, "--device", "cpu")
        self.assert_refused(result, 1, "bad0.png", "--max-bad-images")
        self.assert_names(result.stdout, "good0.png")

    def test_the_default_is_the_same_in_evaluate(self):
        for good, bad, code in ((4, 3, 0), (2, 2, 1)):
            data = self.folder / str(good)
            data.mkdir()
            self.photos(good, bad).rename(data / "circle")
            result = kiln("evaluate", "--trained-model-path", self.trained_model, "--data-path", data, "--output-path",
                          self.folder / f"evaluation{good}", "--device", "cpu")
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)


class OneOutputTest(FlowTest):
    """Hostile C2, C3 and C7."""

    def test_an_output_that_another_run_writes(self):
        model = ["--trained-model-path", self.trained_model]
        commands = {"scores.csv.part": ["score", *model, "--data-path", self.data / "val", "--output-path", "scores.csv"],
                    "evaluation": ["evaluate", *model, "--data-path", self.data / "val", "--output-path", "evaluation"],
                    "converted": ["convert", self.data / "train", "converted"],
                    "packed": ["pack", self.data / "train", "packed"],
                    "demo": ["demo-data", "demo"],
                    "parts/test": ["split", "--src-path", self.data / "train", "--output-path", "parts"],
                    "small.mlflow": ["export", *model, "--format", "mlflow", "--output-path", "small.mlflow"],
                    "new": ["init-model", "resnet18", "--untrained-model-path", "new"]}
        with contextlib.ExitStack() as locks:
            for name in commands:
                path = self.folder / name
                path.touch() if name.endswith(".part") else path.mkdir(parents=True)
                descriptor = os.open(path, os.O_RDONLY)
                locks.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            started = {name: subprocess.Popen([KILN, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              cwd=self.folder) for name, words in commands.items()}
            for name, process in started.items():
                told, errors = process.communicate(timeout=120)
                with self.subTest(name):
                    self.assertEqual(process.returncode, 3, told + errors)
                    self.assertIn(IN_USE, errors)
                    self.assertTrue((self.folder / name).exists())

    def test_parts_by_other_settings_have_other_notes(self):
        def note(part, *options):
            result = kiln("score", "--trained-model-path", self.trained_model, "--data-path", self.data / "val", "--output-path",
                          self.folder / "scores.csv", "--device", "cpu", "--part", part, *options)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return (self.folder / f"scores.part-{part.replace('/', '-of-')}.csv.json").read_text().splitlines()[0]
        first = note("1/2")
        self.assertEqual(note("2/2"), first)
        others = [note("2/2", *options) for options in
                  (["--all-classes"], ["--top-k", 2], ["--min-confidence", 0.9], ["--raw"], ["--precision", "bf16"])]
        self.assertEqual(len({first, *others}), 6)


class CheckpointTest(FlowTest):
    def test_one_that_is_larger_than_any_takes_no_memory(self):
        """Hostile C4: its manifest says 3 GiB, and they are there."""
        checkpoints, size = self.folder / "checkpoints", 3 << 30
        self.assertEqual(self.train(checkpoint_path=checkpoints).returncode, 0)
        newest = sorted(checkpoints.glob("checkpoint-*"))[-1]
        forged = newest.with_name("checkpoint-000100")
        shutil.copytree(newest, forged)
        os.truncate(forged / "state.safetensors", size)
        manifest = json.loads((forged / "checkpoint.json").read_text())
        next(file for file in manifest["files"] if file["name"] == "state.safetensors")["bytes"] = size
        (forged / "checkpoint.json").write_text(json.dumps(manifest))
        with open(self.folder / "output", "w") as output:
            process = subprocess.Popen([KILN, *map(str, self.train_arguments(checkpoint_path=checkpoints, epochs=2))], stdout=output,
                                       stderr=subprocess.STDOUT)
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        told = (self.folder / "output").read_text()
        self.assertEqual(process.returncode, 0, told)
        self.assert_names(told, forged.name, "state.safetensors")
        self.assertNotIn("Epoch 1,", told)
        self.assertLess(used.ru_maxrss << 10, size)


class RanksTest(JobTest):
    def started_apart(self, first, second):
        """Two programs as the two ranks of a job; the job."""
        words = [["-np", 1, *words] for words in (first, second)]
        return self.start_words(["mpirun", "--oversubscribe", *words[0], ":", *words[1]])

    def test_an_option_of_one_rank_alone(self):
        """Hostile B7."""
        train = [KILN, *self.train_arguments(threads=1, loader_threads=1)]
        begun = time.monotonic()
        for words in ([train, [*train, "--checkpoint-path", self.folder / "ck"]], [[*train, "--checkpoint-path", self.folder / "ck"], train]):
            job = self.started_apart(*words)
            self.assertEqual(job.end(), 1, job.output)
            self.assert_names(job.output, "--checkpoint-path", "rank 1")
        self.assertLess(time.monotonic() - begun, 120)  # the usual limit of collectives is 300 seconds

    def test_a_rank_that_never_starts_mpi(self):
        """Hostile B8."""
        job = self.started_apart([KILN, *self.train_arguments(threads=1, loader_threads=1, collective_timeout=4)], ["true"])
        self.assertEqual(job.end(), 3, job.output)
        self.assert_names(job.output, "MPI_Init", "--collective-timeout")
        self.assertEqual(self.error_info()["ErrorCode"], 72)


class MovedServer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(302)
        self.send_header("Location", "https://user:SECRET@new.example/mlflow?key=SECRET")
        self.end_headers()

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *_):
        pass


class MlflowTest(FlowTest):
    """The smaller ones of case 101 on."""

    def test_a_tracking_server_that_has_moved_is_named(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), MovedServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        result = kiln(*self.train_arguments(), environment={"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.server_port}"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_names(result.stdout + result.stderr, "MLFLOW_TRACKING_URI", "https://new.example/mlflow")
        self.assertNotIn("SECRET", result.stdout + result.stderr)


if __name__ == "__main__":
    main()
