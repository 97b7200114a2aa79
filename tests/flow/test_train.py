"""A whole training run through the real binary: what it writes, says and repeats."""
import json
import math
import os
import re
import shutil
import signal
import subprocess

from flow import KILN, FlowTest, cpu_has_bf16, driver_log, explanations, files_below, gallery_of, kiln, main, seen_images


class TrainTest(FlowTest):
    def test_writes_a_model_directory_and_logs(self):
        result = self.train(epochs=2, num_warmup_steps=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = {path.name for path in (self.folder / "model").iterdir()}
        self.assertEqual(names, {"_meta.yaml", "model_spec.yaml", "model", "model.safetensors", "index_to_label.csv",
                                 "_schema.json", "_samples.json", "preprocessing.json", "calibration.json",
                                 "seen_images.bin", "training.json"})
        self.assertEqual([len(hashes) for hashes in seen_images(self.folder / "model")], [48, 12])
        self.assertIsNone(self.error_info())
        log = (self.folder / "logs/70_driver_log_0.txt").read_text()
        stamp = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} kiln                 INFO       "
        self.assertRegex(log, re.compile(stamp + r"Epoch: \[1/2\]\tIter: \[1/2\]\tAvg_Time_Batch/Avg_Time_Epoch\(s\): ", re.M))
        self.assertRegex(log, re.compile(stamp + r"Epoch 2,train_ips [\d.]+,train_loss [\d.]+,train_error [\d.]+,"
                                         r"valid_loss [\d.]+,top1 acc [\d.]+,top5 acc [\d.]+$", re.M))
        self.assertTrue((self.folder / "logs/report.html").exists())
        self.assert_training_json_holds_what_the_readme_promises()

    def test_mistakes_are_explained(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "notes.txt").touch()
        self.assert_fails(self.train(explain=full), 3, 160, "--explain", "notes.txt")
        maps = self.folder / "logs/mistakes"
        result = self.train(explain=maps, epochs=2, image_size=64)
        self.assertEqual(result.returncode, 0, result.stderr)
        wrong = [image for image in gallery_of(self.folder / "logs") if image["truth"] != image["guess"]]
        classes = self.training()["data"]["classes"]
        self.assertEqual([(row["path"], row["label"]) for row in explanations(self, maps, (64, 64))],
                         [(image["file"], classes[image["guess"]]) for image in wrong[:16]])
        self.assertGreater(len(wrong), 0)

    def test_no_pictures_means_none(self):
        self.assert_refused(self.train(explain=self.folder / "maps", no_pictures=True), 2, "--no-pictures", "--explain")
        self.assertEqual(self.train(epochs=1, no_pictures=True).returncode, 0)
        logs = self.folder / "logs"
        self.assertEqual({image["thumbnail"]["bytes"] for image in gallery_of(logs)}, {0})
        self.assertNotIn("<img", (logs / "report.html").read_text())
        files = [path for path in logs.rglob("*") if path.is_file()]
        self.assertEqual([path.name for path in files if b"\xff\xd8\xff" in path.read_bytes()], [])

    def test_validation_images_that_are_also_training_images_are_counted(self):
        train = self.copy_data()
        for seen, image in zip(files_below(self.data / "val").values(), sorted(train.rglob("*.*"))[:3]):
            image.write_bytes(seen)
        result = self.train(epochs=2, train_data_path=train)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.training()["data"]["validation_images_in_training"], 3)
        trained, chosen = seen_images(self.folder / "model")
        self.assertEqual((len(trained), len(chosen), len(trained & chosen)), (48, 12, 3))
        self.assertEqual(result.stdout.count("warning: 3 of 12 validation images"), 1, result.stdout)

    def assert_training_json_holds_what_the_readme_promises(self):
        training = self.training()
        self.assertLessEqual({"options", "versions", "precision", "data", "epochs", "saved_epoch", "stopped_early",
                              "start_to_first_step_seconds", "total_seconds", "peak_memory_bytes"}, set(training))
        self.assertEqual([epoch["epoch"] for epoch in training["epochs"]], [1, 2])
        self.assertAlmostEqual(training["epochs"][0]["learning_rate"], 1e-4)
        self.assertIs(training["stopped_early"], False)
        self.assertEqual(set(training["epochs"][0]),
                         {"epoch", "learning_rate", "train_images_per_second", "train_loss", "train_error", "valid_loss",
                          "top1", "top5", "macro_recall", "macro_f1", "train_seconds", "valid_seconds", "data_wait_seconds", "communication", "skipped_steps"})
        data = training["data"]
        self.assertEqual(data["image_size"], [32, 32])
        self.assertEqual(data["counts"], {name: {"train": 16, "valid": 4} for name in data["classes"]})
        self.assertEqual(data["normalization"], {"name": "half", "mean": [0.5] * 3, "std": [0.5] * 3})
        self.assertIsNone(data["resize_short_side"])
        self.assertEqual(training["options"]["epochs"], "2")
        self.assertGreater(training["total_seconds"], training["start_to_first_step_seconds"])
        self.assertGreater(training["peak_memory_bytes"], 50 << 20)

    def test_image_sizes_and_normalization_are_as_asked(self):
        small = self.train(eval_resize=20)
        self.assert_fails(small, 2, 2, "--eval-resize is 20", "32 pixels")
        result = self.train(image_size=32, eval_resize=72, eval_crop=64, normalization="imagenet")
        self.assertEqual(result.returncode, 0, result.stderr)
        data = self.training()["data"]
        self.assertEqual((data["image_size"], data["eval_size"], data["eval_resize_short_side"]), ([32, 32], [64, 64], 72))
        self.assertEqual(data["normalization"]["mean"], [0.485, 0.456, 0.406])
        self.assertIn("0.485", (self.folder / "model/model_spec.yaml").read_text())

    def test_a_learning_rate_that_rises_is_said(self):
        """Before the first step, and in the record."""
        self.assertIn("schedule's minimum", self.warnings(learning_rate=1e-9))
        warnings = self.warnings(learning_rate=5e-5, num_warmup_steps=1)
        self.assert_names(warnings, "warm-up", "peak")

    def rates(self, **options):
        """The learning rate of each step."""
        result = self.train(print_freq=1, batch_size=8, learning_rate=0.01, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        events = map(json.loads, (self.folder / "logs/metrics.jsonl").read_text().splitlines())
        return [event["learning_rate"] for event in events if event["event"] == "step"]

    def test_the_schedule_covers_the_steps_where_only_they_are_given(self):
        """Here a part of the only epoch, or of the second. The designer's has a rate for each whole epoch."""
        whole = self.rates(lr_schedule="cosine", epochs=2)
        for steps in (len(whole) // 2 - 2, len(whole) - 1):
            for rate, step in zip(self.rates(lr_schedule="cosine", epochs=None, steps=steps), range(steps), strict=True):
                self.assertAlmostEqual(rate, 1e-7 + (0.01 - 1e-7) * (1 + math.cos(math.pi * step / steps)) / 2, delta=1e-9)
        self.assertEqual(self.rates(lr_schedule="cosine", epochs=2, steps=len(whole) - 1), whole[:-1])
        self.assertEqual(self.rates(epochs=None, steps=len(whole) - 1), self.rates(epochs=2)[:-1])

    def warnings(self, **options):
        """Of a run that is ended by the first of its steps."""
        shutil.rmtree(self.folder / "logs", ignore_errors=True)
        process = self.start(print_freq=1, epochs=1, **options)
        self.assertTrue(any("Iter: [" in line for line in driver_log(process, self.folder / "logs")), "it never trained")
        process.kill()
        process.wait()
        lines = (self.folder / "logs/metrics.jsonl").read_text().splitlines()
        return "\n".join(event["text"] for event in map(json.loads, lines) if event["event"] == "warning")

    def test_images_have_a_height_and_a_width(self):
        """Of the model, too, and of all that it answers."""
        result = self.train(image_size="48x32", epochs=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        model = self.folder / "model"
        how = json.loads((model / "preprocessing.json").read_text())
        self.assertEqual((how["input_size"], how["resize_short_side"]), ([48, 32], None))
        self.assertEqual(self.training()["data"]["image_size"], [48, 32])
        self.assertIn("\nimage-size: 48x32\n", (self.folder / "logs/repeat.yaml").read_text())
        photo = files_below(self.data / "val").popitem()[0]
        for words in (["score", self.data / "val" / photo], ["evaluate", self.data / "val", "--output-path", self.folder / "evaluation"],
                      ["export", "--output-path", self.folder / "model.onnx"]):
            done = kiln(*words, "--trained-model-path", model)
            self.assertEqual(done.returncode, 0, done.stderr)
        for size, network, named in (("48x40", "vit_s_16", "patches"), ("48x20", "densenet121", "too small")):
            result = self.train(image_size=size, model_name=network, untrained_model_path=None)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assert_names(result.stderr, named, network, "--image-size")

    def test_patience_counts_epochs_that_are_not_better_than_the_one_before(self):
        """Whatever decides which epoch is kept."""
        result = self.train(epochs=40, patience=1, learning_rate=0.03, batch_size=16, best_by="macro-recall")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"Stopped early\. .*macro recall")
        training = self.training()
        self.assertEqual(training["stopped_early"], "patience")
        losses = [epoch["valid_loss"] for epoch in training["epochs"]]
        self.assertGreaterEqual(losses[-1], losses[-2])
        self.assertEqual(losses[:-1], sorted(losses[:-1], reverse=True))

    def test_files_lie_where_azure_ml_looks_for_them(self):
        for epochs, exit_code in ((1, 0), (0, 1)):
            result = kiln(*self.train_arguments(epochs=epochs, log_path=None), cwd=self.folder,
                          environment={"AZUREML_RUN_ID": "lucky_kiwi", "AZUREML_NODE_COUNT": "1"})
            self.assertEqual(result.returncode, exit_code, result.stderr)
            info = json.loads((self.folder / "outputs/module_statistics/error_info.json").read_text())["Exception"]
            self.assertEqual(info is None, exit_code == 0)
        self.assertEqual((info["ErrorId"], info["ErrorCode"]), ("GreaterThan", 4))
        self.assertIn("Azure ML run lucky_kiwi", (self.folder / "logs/70_driver_log_0.txt").read_text())

    def test_processes_that_do_not_know_each_other(self):
        for environment in ({"AZUREML_NODE_COUNT": "2"}, {"RANK": "0", "WORLD_SIZE": "2"}):
            result = kiln(*self.train_arguments(), environment=environment)
            self.assert_fails(result, 1, 2000, "This job has 1 rank, but", "type mpi")

    def test_coco_folders_and_image_directories_train_like_class_folders(self):
        models = []
        for number, train in enumerate((self.data / "train", self.write_coco(), self.image_directory())):
            target = self.folder / f"model{number}"
            result = self.train(train_data_path=train, trained_model_path=target)
            self.assertEqual(result.returncode, 0, result.stderr)
            models.append((target / "model").read_bytes())
        self.assertEqual(models[0], models[1])
        self.assertEqual(models[0], models[2])

    def test_the_bits_depend_on_the_seed_and_not_on_how_images_are_loaded(self):
        """BatchLoaderTest has all the ways of loading; here are those that differ most."""
        ways = {"plain": {"loader_threads": 1, "cache": "none", "augment": "flip"},
                "ahead": {"loader_threads": 4, "cache": "decoded", "augment": "flip"},
                "strong": {"loader_threads": 4, "cache": "bytes", "augment": "strong"},
                "seed": {"loader_threads": 1, "cache": "none", "augment": "flip", "random_seed": 2}}
        models, losses = {}, {}
        for name, way in ways.items():
            result = self.train(trained_model_path=self.folder / name, epochs=2, save="last", **way)
            self.assertEqual(result.returncode, 0, result.stderr)
            training = self.training(name)
            self.assertEqual((training["saved_epoch"], training["data"]["augment"]), (2, way["augment"]))
            models[name] = (self.folder / name / "model").read_bytes()
            losses[name] = [(epoch["train_loss"], epoch["valid_loss"]) for epoch in training["epochs"]]
        self.assertEqual(losses["plain"], losses["ahead"])
        self.assertTrue(models["plain"] == models["ahead"], "the models differ")
        self.assertEqual(len(set(models.values())), 3)

    def test_saves_the_best_epoch(self):
        result = self.train(epochs=3, learning_rate=0.05, patience=3, no_hashes=True)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse((self.folder / "model/seen_images.bin").exists())
        training = self.training()
        best = max(training["epochs"], key=lambda epoch: (epoch["top1"], -epoch["valid_loss"], -epoch["epoch"]))
        self.assertEqual(training["saved_epoch"], best["epoch"])

    def test_trains_from_config_file_and_a_flag_wins(self):
        config = self.folder / "run.yaml"
        config.write_text(f"epochs: 3\nbatch_size: 16\ntrained_model_path: {self.folder / 'model'}\n")
        result = self.train(config=config, epochs=1, batch_size=None, trained_model_path=None)
        self.assertEqual(result.returncode, 0, result.stderr)
        training = self.training()
        self.assertEqual(len(training["epochs"]), 1)
        self.assertEqual(training["options"]["batch-size"], "16")

    def test_finishes_the_model_of_a_run_killed_while_saving(self):
        model = shutil.copytree(self.trained_model, self.folder / "model")
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

    def start(self, **options):
        process = subprocess.Popen([KILN, *self.train_arguments(**options)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        self.addCleanup(process.stdout.close)
        return process

    def stop_after_first_epoch(self, number):
        process = self.start(epochs=500, patience=500)
        for line in process.stdout:
            if "Epoch 1,train_ips" in line:
                break
        process.send_signal(number)
        process.stdout.read()
        return process.wait()

    def test_stop_signals_save_the_best_finished_epoch(self):
        for number in (signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number):
                self.assertEqual(self.stop_after_first_epoch(number), 128 + number)
                training = self.training()
                self.assertEqual(training["stopped_early"], "signal")
                self.assertGreaterEqual(training["saved_epoch"], 1)

    def test_killed_run_leaves_no_model(self):
        process = self.start(epochs=500)
        self.assertTrue(any("Iter: [" in line for line in driver_log(process, self.folder / "logs")), "it never trained")
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


class PrecisionTest(FlowTest):
    def trained(self, **options):
        """Output and training.json of a run."""
        result = self.train(**options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result, json.loads((self.folder / "model/training.json").read_text())

    def test_what_the_cpu_cannot_do_is_refused(self):
        for precision in ("fp16", "tf32"):
            with self.subTest(precision=precision):
                result = self.train(precision=precision, checkpoint_path=self.folder / "checkpoints")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertIn("--precision " + precision, result.stderr)
                self.assertEqual([path.name for path in self.folder.iterdir()], ["logs"])
                self.assertEqual([name for name in files_below(self.folder / "logs") if not name.startswith("70_driver_log")],
                                 [".kiln-lock", "module_statistics/error_info.json"])

    def test_the_choice_and_its_reason_are_told(self):
        result, training = self.trained(precision="auto", image_size=128)
        expected = "bf16" if cpu_has_bf16() else "fp32"
        self.assertEqual(training["precision"], expected)
        self.assertTrue(training["precision_reason"].startswith("auto: "), training)
        self.assertIsNone(training["epochs"][0]["skipped_steps"])
        beginning = result.stdout[:result.stdout.index("Epoch 1,")]
        self.assertRegex(beginning, rf"precision: +{expected} \(auto: ")

    def test_networks_with_depthwise_convolutions_are_trained_like_the_others(self):
        expected = "bf16" if cpu_has_bf16() else "fp32"
        _, training = self.trained(precision="auto", model_name="mobilenet_v3_large", untrained_model_path=None, image_size=128)
        self.assertEqual(training["precision"], expected)
        scored = kiln("score", "--trained-model-path", self.folder / "model", "--data-path", self.data / "val", "--precision",
                      "auto", "--output-path", self.folder / "scores.csv")
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assertRegex(scored.stdout, rf"\b{expected}\b")

    def test_a_resumed_run_keeps_its_precision(self):
        """Also that of small images, which auto would train on in float32."""
        options = {"image_size": 32, "checkpoint_path": self.folder / "checkpoints"}
        self.assertEqual(self.trained(precision="auto", image_size=32)[1]["precision"], "fp32")
        self.trained(precision="bf16", epochs=1, **options)
        _, training = self.trained(precision="auto", epochs=2, **options)
        self.assertEqual(training["precision"], "bf16")

    def test_emulation_is_warned_of(self):
        result, training = self.trained(precision="bf16")
        self.assertEqual(training["precision"], "bf16")
        self.assertEqual("emulated" in result.stdout, not cpu_has_bf16(), result.stdout)


if __name__ == "__main__":
    main()
