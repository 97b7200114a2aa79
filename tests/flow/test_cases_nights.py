"""Reports of users of other trainers, and files from them, through the real program: runs that nobody watches."""
import fcntl
import http.server
import json
import os
import pty
import shutil
import signal
import subprocess
import termios
import threading
import time

from flow import KILN, FlowTest, kiln, main


class Nights(FlowTest):
    """Nothing is lost at the end of a run, and nothing outside can hold one."""

    def blocked_pipe(self):
        """The end to write of a pipe that is full and that nobody reads."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        os.write(writer, bytes(4096))
        return writer

    def wait_for(self, path, word, process, patience=60):
        """Until the file has the word."""
        end = time.monotonic() + patience
        while not path.exists() or word not in path.read_text(errors="replace"):
            self.assertIsNone(process.poll(), f"it ended before '{word}'")
            self.assertLess(time.monotonic(), end, f"'{word}' never came")
            time.sleep(0.02)

    def test_a_console_that_nobody_reads_holds_no_run(self):
        for number, (both, stop, ranks) in enumerate(((False, signal.SIGTERM, None), (True, signal.SIGINT, 2))):
            with self.subTest(both=both, ranks=ranks):
                logs, model = self.folder / f"logs-{number}", self.folder / f"model-{number}"
                console = self.blocked_pipe()
                words = self.train_arguments(epochs=4000, patience=4000, print_freq=1, threads=1, loader_threads=1, ranks=ranks,
                                             log_path=logs, trained_model_path=model)
                process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=console,
                                           stderr=console if both else subprocess.DEVNULL, start_new_session=True)
                self.addCleanup(process.kill)
                os.close(console)
                self.wait_for(logs / "70_driver_log_0.txt", "Epoch 2,", process)
                process.send_signal(stop)
                self.assertEqual(process.wait(60), 128 + stop)
                self.assertTrue((model / "_meta.yaml").exists())
                self.assertRegex((logs / "70_driver_log_0.txt").read_text(), r"Epoch 1,(.*\n)+.*Stopped by signal ")

    def start_training(self, **options):
        """A run that goes on until it is stopped."""
        words = self.train_arguments(**{"epochs": 4000, "patience": 4000, "threads": 1, "loader_threads": 1, **options})
        process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_a_disk_that_is_too_small_is_told_before_the_first_step(self):
        place = self.folder / "small"
        place.mkdir()
        mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=$0m none "$1" && shift && exec "$@"']
        if subprocess.run([*mount, "1", place, "true"], capture_output=True).returncode != 0:
            self.skipTest("no small disk can be mounted")
        checkpoints = {"checkpoint_path": place / "checkpoints"}
        for megabytes, options, words in ((60, {}, "for the model, twice its weights,"),
                                          (240, checkpoints, "for 2 checkpoints and the next one")):
            with self.subTest(megabytes=megabytes):
                command = [*mount, megabytes, place, KILN, *self.train_arguments(trained_model_path=place / "model", **options)]
                result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=100)
                self.assert_fails(result, 3, 160, "The disk has ", " left, and this run needs ", words)
                self.assertNotIn("Epoch 1", result.stdout)

    def test_a_model_that_cannot_be_written_is_kept_elsewhere(self):
        model, temporary = self.folder / "model", self.folder / "temporary"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        self.addCleanup(os.environ.pop, "TMPDIR")
        for beside_logs in (True, False):
            with self.subTest(beside_logs=beside_logs):
                logs = self.folder / f"logs-{beside_logs}"
                run = self.start_training(log_path=logs)
                self.wait_for(logs / "70_driver_log_0.txt", "Epoch 1,", run)
                if not beside_logs:
                    (logs / "kept_model").write_text("a file")
                shutil.rmtree(model)
                model.write_text("a file")
                run.send_signal(signal.SIGTERM)
                said = run.communicate(timeout=60)[0]
                model.unlink()
                self.assertEqual(run.returncode, 3, said)
                kept = logs / "kept_model" if beside_logs else next(temporary.glob("kiln-model-*"))
                self.assertIn(f"'{kept}'", said)
                self.assertEqual(kiln("inspect", kept).returncode, 0)

    def test_a_model_that_will_be_replaced_is_described(self):
        again = {"checkpoint_path": self.folder / "checkpoints", "threads": 1}
        first = self.train(**again)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertNotIn("will replace", first.stdout)
        resumed = self.train(**{**again, "epochs": 2})
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertNotIn("will replace", resumed.stdout)
        other = self.train(threads=1)
        self.assertRegex(other.stdout, rf"This run will replace the model in '{self.folder}/model': 3 classes \('circle', "
                         r"'\w+', '\w+'\), top-1 [0-9.]+ %, of the run that began 20\d\d-")

    def test_two_runs_with_one_log_folder(self):
        """The second is refused; one that is restarted waits for the first, which leaves no lock when it is killed."""
        log = self.folder / "logs/70_driver_log_0.txt"
        first = self.start_training()
        self.wait_for(log, "Epoch 1,", first)
        second = self.train(trained_model_path=self.folder / "other")
        self.assert_refused(second, 3, self.folder / "logs")
        self.assertFalse((self.folder / "logs/module_statistics/error_info.json").exists())
        restarted = self.start_training(epochs=1)
        said = ""
        while "Waiting for the run that writes its logs to" not in said:
            said += restarted.stdout.readline()
        first.kill()
        said += restarted.communicate(timeout=60)[0]
        self.assertEqual(restarted.returncode, 0, said)
        self.assertIn("Epoch 1,", log.read_text())

    def test_a_name_that_mlflow_refuses_costs_that_one(self):
        """Case 29: servers before 2.16 know no colon in a name, and refuse all that comes with it."""
        accepted = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                names = [item["key"] for kind in ("metrics", "params") for item in json.loads(body or "{}").get(kind, [])]
                refuses = any(":" in name for name in names)
                accepted.extend([] if refuses else names)
                info = {"run_id": "r", "experiment_id": "0", "artifact_uri": "file:/x"}
                answer = {"message": "Invalid name"} if refuses else {"run": {"info": info, "data": {}}, "experiment_id": "0"}
                self.send_response(400 if refuses else 200)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

            do_GET = do_POST

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        train, valid = self.copy_data(), self.copy_data("val")
        for part in (train, valid):
            (part / "circle").rename(part / "a:b")
        words = self.train_arguments(train_data_path=train, valid_data_path=valid, threads=1)
        result = kiln(*words, environment={"MLFLOW_TRACKING_URI": f"http://127.0.0.1:{server.server_port}"})
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"MLflow: 1 of \d+ points.* could not be sent \(refused: 'Recall/class a:b'\)")
        recalls = [name for name in accepted if name.startswith("Recall/class ")]
        self.assertEqual(len(recalls), 2)
        self.assertIn("epochs", accepted)

    def test_threads_far_beyond_the_processors_are_refused(self):
        if len(os.sched_getaffinity(0)) > 31:
            self.skipTest("this machine has enough processors")
        result = self.train(threads=1024)
        self.assert_fails(result, 1, 2000, "--threads is 1024, but", "Give at most ")

    def test_a_second_signal_ends_a_run_whose_terminal_is_paused(self):
        main_side, side = pty.openpty()
        self.addCleanup(os.close, main_side)
        words = self.train_arguments(epochs=4000, patience=4000, print_freq=1, threads=1, loader_threads=1)
        process = subprocess.Popen([KILN, *words], stdin=subprocess.DEVNULL, stdout=side, stderr=side, start_new_session=True)
        self.addCleanup(process.kill)
        termios.tcflow(side, termios.TCOOFF)
        os.close(side)
        self.wait_for(self.folder / "logs/70_driver_log_0.txt", "Epoch 1,", process)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(30), 128 + signal.SIGTERM)


if __name__ == "__main__":
    main()
