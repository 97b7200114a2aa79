"""A whole training run through the real binary: what it writes, says and repeats."""
import json
import os
import re
import signal
import subprocess
import time

from flow import KILN, FlowTest, kiln, main


class TrainTest(FlowTest):
    def test_writes_a_model_directory_and_logs(self):
        result = self.train(epochs=2, num_warmup_steps=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {path.name for path in (self.folder / "model").iterdir()}
        self.assertEqual(names, {"_meta.yaml", "model_spec.yaml", "model", "model.safetensors", "index_to_label.csv",
                                 "_schema.json", "_samples.json", "training.json"})
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual([epoch["epoch"] for epoch in training["epochs"]], [1, 2])
        self.assertAlmostEqual(training["epochs"][0]["learning_rate"], 1e-4)
        self.assertIs(training["stopped_early"], False)
        self.assertEqual(training["data"]["image_size"], [32, 32])
        self.assertIsNone(self.error_info())
        log = (self.folder / "logs/70_driver_log_0.txt").read_text()
        stamp = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} kiln                 INFO       "
        self.assertRegex(log, re.compile(stamp + r"Epoch: \[1/2\]\tIter: \[1/6\]\tAvg_Time_Batch/Avg_Time_Epoch\(s\): ", re.M))
        self.assertRegex(log, re.compile(stamp + r"Epoch 2,train_ips [\d.]+,train_loss [\d.]+,train_error [\d.]+,"
                                         r"valid_loss [\d.]+,top1 acc [\d.]+,top5 acc [\d.]+$", re.M))
        self.assertIn("saved epoch", result.stdout)

    def test_same_seed_same_bits_whatever_the_loader_threads(self):
        models = []
        for number, loaders in enumerate((1, 3)):
            target = self.folder / f"model{number}"
            result = self.train(trained_model_path=target, loader_threads=loaders, save="last")
            self.assertEqual(result.returncode, 0, result.stderr)
            models.append((target / "model").read_bytes())
        self.assertEqual(models[0], models[1])
        other = self.train(trained_model_path=self.folder / "other", random_seed=2)
        self.assertEqual(other.returncode, 0)
        self.assertNotEqual(models[0], (self.folder / "other/model").read_bytes())

    def test_saves_the_best_epoch(self):
        result = self.train(epochs=3, learning_rate=0.05, patience=3)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = json.loads((self.folder / "model/training.json").read_text())
        best = max(training["epochs"], key=lambda epoch: (epoch["top1"], -epoch["valid_loss"], -epoch["epoch"]))
        self.assertEqual(training["saved_epoch"], best["epoch"])

    def test_trains_from_config_file_and_a_flag_wins(self):
        config = self.folder / "run.yaml"
        config.write_text(f"epochs: 3\nbatch_size: 4\ntrained_model_path: {self.folder / 'model'}\n")
        result = self.train(config=config, epochs=1, batch_size=None, trained_model_path=None)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual(len(training["epochs"]), 1)
        self.assertEqual(training["options"]["batch-size"], "4")

    def test_overwrites_an_earlier_model_directory(self):
        for _ in range(2):
            self.assertEqual(self.train().returncode, 0)
        (self.folder / "model/.kiln-tmp-model").write_text("left by a killed run")
        self.assertEqual(self.train().returncode, 0)
        self.assertFalse((self.folder / "model/.kiln-tmp-model").exists())

    def test_diverging_run_says_so_and_writes_nothing(self):
        result = self.train(learning_rate=1000, epochs=2, print_freq=1)
        self.assert_fails(result, 3, 39, "learning rate", "epoch", "step", "lower")

    def test_densenet_trains(self):
        untrained = self.folder / "densenet"
        self.assertEqual(kiln("init-model", "densenet121", "--untrained-model-path", untrained,
                              "--memory-efficient").returncode, 0)
        result = self.train(untrained_model_path=untrained)
        self.assertEqual(result.returncode, 0, result.stderr)

    def stop_after_first_epoch(self, signals):
        command = [KILN, *self.train_arguments(epochs=500, patience=500)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if "Epoch 1,train_ips" in line:
                break
        for number in signals:
            process.send_signal(number)
            time.sleep(0.05)
        process.stdout.read()
        process.stdout.close()
        return process.wait()

    def test_stop_signals_save_the_best_finished_epoch(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            with self.subTest(signal=number):
                self.assertEqual(self.stop_after_first_epoch([number]), 128 + number)
                training = json.loads((self.folder / "model/training.json").read_text())
                self.assertEqual(training["stopped_early"], "signal")
                self.assertGreaterEqual(training["saved_epoch"], 1)

    def test_killed_run_leaves_no_model(self):
        command = [KILN, *self.train_arguments(epochs=500)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        process.kill()
        process.wait()
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def test_default_log_folder_that_cannot_be_written_is_only_said(self):
        if os.geteuid() == 0:
            unwritable = "/proc"
        else:
            self.skipTest("needs root: only /proc refuses everybody")
        result = kiln(*self.train_arguments(log_path=None), cwd=unwritable)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no log files", result.stdout)


if __name__ == "__main__":
    main()
