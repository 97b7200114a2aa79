"""Outputs that cannot be written, and runs that are ended: nothing half-written, and what was there stays."""
import os
import resource
import shutil
import signal
import subprocess

from flow import KILN, FlowTest, driver_log, files_below, handles, kiln, main
from run_files import RunFile


class OutputTest(FlowTest):
    def mount(self, options):
        """A small file system at the target, or a skip."""
        target = self.folder / "model"
        target.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(target)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs needs more rights")
        self.addCleanup(subprocess.run, ["umount", str(target)])
        return target

    def test_target_with_other_things_in_it(self):
        (self.folder / "model").mkdir()
        (self.folder / "model/thesis.tex").write_text("precious")
        result = self.train()
        self.assert_fails(result, 3, 160, "thesis.tex")
        self.assertEqual((self.folder / "model/thesis.tex").read_text(), "precious")

    def test_hidden_files_and_lost_and_found_are_no_hindrance(self):
        target = self.folder / "model"
        (target / "lost+found").mkdir(parents=True)
        (target / ".amlignore").write_text("x")
        self.assertEqual(self.train().returncode, 0)
        self.assertEqual((target / ".amlignore").read_text(), "x")
        self.assertTrue((target / "lost+found").is_dir())

    def test_unwritable_target(self):
        self.assert_fails(self.train(trained_model_path="/proc/model"), 3, 160, "/proc/model")

    def test_target_without_permission(self):
        target = self.folder / "model"
        target.mkdir(mode=0o555)
        result = self.train_bound_by_permissions()
        self.assert_fails(result, 3, 160, str(target), "Permission denied")
        self.assertNotIn("Epoch 1,", result.stdout)
        self.assertEqual(list(target.iterdir()), [])

    def test_read_only_target(self):
        self.mount("ro,size=1m")
        result = self.train()
        self.assert_fails(result, 3, 160, "read-only")
        self.assertNotIn("Epoch 1,", result.stdout)

    def test_full_disk(self):
        target = self.mount("size=20m")
        self.assert_fails(self.train(), 3, 160, "space")
        left = os.listdir(target)
        self.assertFalse([name for name in left if name.startswith(".kiln-tmp-") or name in ("_meta.yaml", "model")], left)

    def test_full_disk_leaves_the_earlier_model_whole(self):
        target = self.mount("size=110m")  # room for one model, which has 90 MB, not for two
        shutil.copytree(self.trained_model, target, dirs_exist_ok=True)
        before = files_below(target)
        result = self.train(random_seed=2)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(self.error_info()["ErrorCode"], 160)
        self.assertEqual(files_below(target), before)

    def test_a_second_run_into_the_folder_of_a_living_one(self):
        command = [KILN, *self.train_arguments(epochs=500, patience=500, image_size=96, batch_size=8)]
        first = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            for line in first.stdout:
                if line.startswith("Epoch"):
                    break
            self.assert_refused(self.train(log_path=self.folder / "other"), 3, f"'{self.folder / 'model'}' is in use")
        finally:
            first.kill()
            first.communicate()
        self.assertEqual(self.train().returncode, 0)

    def test_a_removed_working_folder(self):
        gone = self.folder / "gone"
        gone.mkdir()
        result = subprocess.run(["sh", "-c", f'cd "{gone}"; rmdir "{gone}"; exec "{KILN}" --version'],
                                capture_output=True, text=True)
        self.assert_refused(result, 1, "working directory")

    def test_a_path_that_is_too_long(self):
        path = self.folder / ("long/" * 1000)
        self.assert_fails(self.train(trained_model_path=path), 3, 160, "File name too long")

    def test_log_path_below_a_file(self):
        (self.folder / "file").write_text("precious")
        result = kiln(*self.train_arguments(log_path=self.folder / "file/logs"))
        self.assert_refused(result, 3, "file/logs")

    def test_log_path_that_cannot_be_written(self):
        result = kiln(*self.train_arguments(log_path="/proc/logs"))
        self.assert_refused(result, 3, "/proc/logs")

    def test_a_limit_on_file_sizes_is_like_a_full_disk(self):
        result = kiln(*self.train_arguments(),
                      preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5 << 20, 5 << 20)))
        self.assert_fails(result, 3, 160, "ulimit -f")

    def test_a_result_that_cannot_be_printed(self):
        logs = RunFile(epochs=2).write(self.folder / "logs")
        for arguments in (["--help"], ["--version"], ["inspect", self.data / "train", "--json"],
                          ["describe", "--format", "json"], ["report", logs],
                          ["compare", logs, logs, "--output-path", self.folder / "compared.html"]):
            with self.subTest(arguments[0]), open("/dev/full", "wb") as full:
                result = subprocess.run([KILN, *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assert_refused(result, 3, "standard output")

    def test_a_console_that_cannot_be_written(self):
        for number, ranks in enumerate((None, 2)):
            with self.subTest(ranks=ranks), open("/dev/full", "wb") as full:
                model = self.folder / f"model-{number}"
                command = [KILN, *self.train_arguments(ranks=ranks, trained_model_path=model)]
                self.assertEqual(subprocess.run(command, stdout=full).returncode, 0)
                self.assertTrue((model / "_meta.yaml").exists())

    def test_a_console_that_is_closed(self):
        for number, ranks in enumerate((None, 2)):
            with self.subTest(ranks=ranks):
                model = self.folder / f"model-{number}"
                command = [KILN, *self.train_arguments(ranks=ranks, trained_model_path=model)]
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                process.stdout.readline()
                process.stdout.close()
                self.assertEqual(process.wait(120), 0)
                self.assertTrue((model / "_meta.yaml").exists())

    def test_a_command_whose_reader_is_gone_finishes(self):
        (self.folder / "images").mkdir()
        for name in ("circle", "square"):  # too few to divide each class: a warning before anything is written
            (self.folder / "images" / name).mkdir()
            file = sorted((self.data / "train" / name).iterdir())[0]
            shutil.copy(file, self.folder / "images" / name)
        parts = [self.folder / "part-0", self.folder / "part-1"]
        command = [KILN, "split", "--src-path", self.folder / "images", "--tgt-train-path", parts[0], "--tgt-test-path",
                   parts[1], "--fraction", "0.5"]
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.Popen([str(word) for word in command], stdout=writing, stderr=subprocess.PIPE, text=True)
        os.close(writing)
        self.assertEqual((process.communicate(timeout=60)[1], process.returncode), ("", 0))
        for part in parts:
            self.assertTrue((part / "_meta.yaml").exists())

    def test_too_little_memory(self):
        def limit_memory():
            resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        result = kiln(*self.train_arguments(batch_size=48, image_size=640, loader_threads=1, threads=1),
                      preexec=limit_memory)
        self.assert_fails(result, 3, 138, "--batch-size")  # of 8.1 GB, also where that many are free


class StopTest(FlowTest):
    """Steps of large images are slow enough that signals come in the middle of an epoch."""

    def stopped_at(self, text, *signals, epochs=500):
        """Starts a run, sends the signals when its driver log has the text, and waits: the exit code and the output."""
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        command = [KILN, *self.train_arguments(epochs=epochs, patience=500, image_size=96, batch_size=8,
                                                print_freq=1)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in driver_log(process, self.folder / "logs"):
            if text in line:
                for number in signals:
                    process.send_signal(number)
                break
        said = process.stdout.read()
        process.stdout.close()
        return process.wait(), said

    def test_signal_before_an_epoch_is_finished_writes_nothing(self):
        for number in (signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=number):
                code, said = self.stopped_at("Epoch: [1/500]", number)
                self.assertEqual(code, 128 + number, said)
                self.assertEqual(list((self.folder / "model").iterdir()), [])

    def test_a_signal_before_training_begins_ends_at_once(self):
        process = subprocess.Popen([KILN, *self.train_arguments()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        while not handles(process.pid, signal.SIGTERM):
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, said)
        self.assertNotIn("No epoch was finished", said)

    def test_nohup(self):
        command = [KILN, *self.train_arguments()]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        for line in driver_log(process, self.folder / "logs"):
            if "Epoch: [1/1]" in line:
                process.send_signal(signal.SIGHUP)
        process.stdout.close()
        self.assertEqual(process.wait(120), 0)

    def test_second_signal_ends_at_once_and_leaves_the_earlier_model(self):
        shutil.copytree(self.trained_model, self.folder / "model")
        before = files_below(self.folder / "model")
        code, said = self.stopped_at("Epoch 1,", signal.SIGTERM, signal.SIGINT)
        self.assertIn(code, (128 + signal.SIGTERM, 128 + signal.SIGINT), said)
        self.assertNotIn("saved epoch", said)
        after = {name: data for name, data in files_below(self.folder / "model").items() if not name.startswith(".")}
        self.assertEqual(after, before)


if __name__ == "__main__":
    main()
