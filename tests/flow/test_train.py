"""A whole training run through the real binary: what it writes, says and repeats."""
import json
import os
import re
import signal
import subprocess
import time

from flow import KILN, FlowTest, files_below, kiln, main


class TrainTest(FlowTest):
    def test_writes_a_model_directory_and_logs(self):
        result = self.train(epochs=2, num_warmup_steps=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {path.name for path in (self.folder / "model").iterdir()}
        self.assertEqual(names, {"_meta.yaml", "model_spec.yaml", "model", "model.safetensors", "index_to_label.csv",
                                 "_schema.json", "_samples.json", "preprocessing.json", "training.json"})
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
        for word in ("training data:", "48 images, 3 classes", "model:            resnet18, 11,178,051 parameters", "device:",
                     "plan:             2 epochs of 6 steps of 8 images", "saved epoch", "top-1 accuracy", "peak memory",
                     str(self.folder / "model")):
            self.assertIn(word, result.stdout)
        report = self.folder / "logs/report.html"
        self.assertTrue(report.exists())
        self.assertIn(f"\n  report            {report}\n", result.stdout)

    def test_training_json_holds_what_the_readme_promises(self):
        train = self.copy_data()
        for seen, image in zip(files_below(self.data / "val").values(), sorted(train.rglob("*.*"))[:3]):
            image.write_bytes(seen)
        result = self.train(epochs=2, train_data_path=train)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual(training["data"]["validation_images_in_training"], 3)
        self.assertEqual(result.stdout.count("3 of 12 validation images are also training images"), 1, result.stdout)
        self.assertLessEqual({"options", "versions", "data", "epochs", "saved_epoch", "stopped_early",
                              "start_to_first_step_seconds", "total_seconds", "peak_memory_bytes"}, set(training))
        self.assertEqual(set(training["epochs"][0]),
                         {"epoch", "learning_rate", "train_images_per_second", "train_loss", "train_error", "valid_loss",
                          "top1", "top5", "train_seconds", "valid_seconds", "data_wait_seconds", "communication"})
        self.assertEqual(training["data"]["counts"], {name: {"train": 16, "valid": 4} for name in training["data"]["classes"]})
        self.assertEqual(training["data"]["normalization"], {"name": "half", "mean": [0.5] * 3, "std": [0.5] * 3})
        self.assertIsNone(training["data"]["resize_short_side"])
        self.assertEqual(training["options"]["epochs"], "2")
        self.assertGreater(training["total_seconds"], training["start_to_first_step_seconds"])
        self.assertGreater(training["peak_memory_bytes"], 50 << 20)

    def test_image_size_and_normalization_are_as_asked(self):
        result = self.train(image_size=48, normalization="imagenet")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("48x48 (--image-size; other sizes: short side to 55, center crop)", result.stdout)
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        self.assertEqual((data["image_size"], data["resize_short_side"]), ([48, 48], 55))
        self.assertEqual(data["normalization"]["mean"], [0.485, 0.456, 0.406])
        self.assertIn("0.485", (self.folder / "model/model_spec.yaml").read_text())

    def test_patience_counts_epochs_that_are_not_better_than_the_one_before(self):
        result = self.train(epochs=40, patience=1, learning_rate=0.3, batch_size=16)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual(training["stopped_early"], "patience")
        self.assertIn("Early stopped.", result.stdout)
        losses = [epoch["valid_loss"] for epoch in training["epochs"]]
        self.assertGreaterEqual(losses[-1], losses[-2])
        self.assertEqual(losses[:-1], sorted(losses[:-1], reverse=True))

    def test_saves_the_last_epoch_where_asked(self):
        self.assertEqual(self.train(epochs=3, learning_rate=0.05, save="last").returncode, 0)
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual(training["saved_epoch"], 3)

    def test_a_learning_rate_that_rises_and_a_folder_used_twice_are_said(self):
        result = self.train(learning_rate=1e-9, valid_data_path=self.data / "train")  # warned of before training, and only then
        self.assertIn("training and validation data are the same", result.stdout)
        self.assertNotIn("are also training images", result.stdout)
        training = json.loads((self.folder / "model/training.json").read_text())
        self.assertEqual(training["data"]["validation_images_in_training"], 48)
        self.assertIn("the learning rate is below the schedule's minimum and will rise to 1e-07", result.stdout)
        result = self.train(learning_rate=5e-5, num_warmup_steps=1)
        self.assertIn("warm-up will lower it", result.stdout)
        self.assertIn("the learning rate never reaches its peak", result.stdout)

    def test_files_lie_where_azure_ml_looks_for_them(self):
        for epochs, exit_code in ((1, 0), (0, 1)):
            result = kiln(*self.train_arguments(epochs=epochs, log_path=None), cwd=self.folder,
                          environment={"AZUREML_RUN_ID": "lucky_kiwi", "AZUREML_NODE_COUNT": "1"})
            self.assertEqual(result.returncode, exit_code, result.stderr)
            info = json.loads((self.folder / "outputs/module_statistics/error_info.json").read_text())["Exception"]
            self.assertEqual(info is None, exit_code == 0)
        self.assertEqual((info["ErrorId"], info["ErrorCode"]), ("GreaterThan", 4))
        self.assertIn("Azure ML run lucky_kiwi", (self.folder / "logs/70_driver_log_0.txt").read_text())

    def test_nodes_of_azure_ml_that_do_not_know_each_other(self):
        result = kiln(*self.train_arguments(), environment={"AZUREML_NODE_COUNT": "2"})
        self.assert_fails(result, 1, 2000, "This job has 1 rank, but Azure ML gave it 2 nodes", "type mpi")

    def test_coco_folders_and_image_directories_train_like_class_folders(self):
        models = []
        for number, train in enumerate((self.data / "train", self.write_coco(), self.image_directory())):
            target = self.folder / f"model{number}"
            result = self.train(train_data_path=train, trained_model_path=target)
            self.assertEqual(result.returncode, 0, result.stderr)
            models.append((target / "model").read_bytes())
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])

    def test_same_seed_same_bits_whatever_the_loader_threads(self):
        models, losses = set(), set()
        for loaders, cache in ((1, "none"), (2, "decoded"), (4, "none"), (4, "decoded")):
            target = self.folder / f"model-{loaders}-{cache}"
            result = self.train(trained_model_path=target, loader_threads=loaders, cache=cache, epochs=2, save="last")
            self.assertEqual(result.returncode, 0, result.stderr)
            models.add((target / "model").read_bytes())
            epochs = json.loads((target / "training.json").read_text())["epochs"]
            losses.add(tuple((epoch["train_loss"], epoch["valid_loss"]) for epoch in epochs))
        self.assertEqual((len(models), len(losses)), (1, 1))
        other = self.train(trained_model_path=self.folder / "other", random_seed=2, epochs=2, save="last")
        self.assertEqual(other.returncode, 0)
        self.assertNotIn((self.folder / "other/model").read_bytes(), models)

    def test_same_bits_whatever_is_cached_or_read_ahead(self):
        ways = ({"cache": "none"}, {"cache": "bytes"}, {"cache": "decoded", "loader_threads": 4, "read_ahead": 5},
                {"cache": "decoded", "cache_bytes": 20000}, {"cache": "auto"})
        for augment in ("none", "flip"):
            models = set()
            for number, way in enumerate(ways):
                target = self.folder / f"{augment}-{number}"
                result = self.train(trained_model_path=target, epochs=3, augment=augment, save="last", image_size=40, **way)
                self.assertEqual(result.returncode, 0, result.stderr)
                models.add((target / "model").read_bytes())
                kept = {"none": "off", "bytes": "files as stored"}.get(way["cache"], "decoded images")
                self.assertIn(f"cache: {kept}", result.stdout)
            self.assertEqual(len(models), 1)

    def test_caches_that_are_refused(self):
        result = self.train(cache="decoded", augment="standard", epochs=0)
        self.assert_fails(result, 2, 2, "--augment standard changes them in every epoch", "--epochs is 0")
        self.assert_fails(self.train(cache="decoded", cache_bytes=3000), 1, 2000, "--cache-bytes is 3000")
        for limit in (1, 2000):  # less than the table, and little more
            self.assert_fails(self.train(cache="bytes", cache_bytes=limit), 1, 2000, f"--cache-bytes is {limit}", "one file")

    def test_augmentation_is_drawn_from_the_seed_whatever_the_loader_threads(self):
        outcomes = []
        for augment, loaders in (("strong", 1), ("strong", 3), ("standard", 1), ("flip", 1), ("none", 1)):
            target = self.folder / f"model{len(outcomes)}"
            result = self.train(trained_model_path=target, loader_threads=loaders, augment=augment, save="last")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("32x32 (all images have this size)", result.stdout)
            self.assertEqual(f"augmentation:     {augment} (" in result.stdout, augment != "none")
            self.assertEqual(f"  augmentation      {augment}\n" in result.stdout, augment != "none")
            data = json.loads((target / "training.json").read_text())["data"]
            self.assertEqual((data["augment"], data["eval_size"], data["eval_resize_short_side"]), (augment, [32, 32], None))
            outcomes.append((target / "model").read_bytes())
        self.assertEqual(outcomes[0], outcomes[1])
        self.assertEqual(len(set(outcomes)), 4)

    def test_validation_has_its_own_size(self):
        result = self.train(image_size=32, eval_resize=72, eval_crop=64)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("validation size:  64x64 (short side to 72, center crop)", result.stdout)
        data = json.loads((self.folder / "model/training.json").read_text())["data"]
        self.assertEqual((data["image_size"], data["eval_size"], data["eval_resize_short_side"]), ([32, 32], [64, 64], 72))
        small = self.train(eval_resize=20, trained_model_path=self.folder / "small")
        self.assertEqual(small.returncode, 2, small.stderr)
        self.assertIn("--eval-resize is 20, smaller than the center crop of 32 pixels", small.stderr)

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
        (self.folder / "model/.kiln-tmp-model-1").write_text("left by a killed run")
        self.assertEqual(self.train().returncode, 0)
        self.assertFalse((self.folder / "model/.kiln-tmp-model-1").exists())

    def test_finishes_the_model_of_a_run_killed_while_saving(self):
        self.assertEqual(self.train().returncode, 0)
        model = self.folder / "model"
        (model / "_meta.yaml").rename(model / ".kiln-tmp-_meta.yaml-1")
        (model / ".kiln-journal").write_bytes(b"kiln-journal-1\0.kiln-tmp-_meta.yaml-1\0_meta.yaml\0")
        self.assertEqual(kiln("inspect", model).returncode, 0)
        self.assertFalse([path for path in model.iterdir() if path.name.startswith(".")])

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
