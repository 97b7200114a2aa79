"""Wrong command lines: every fault named at once, before anything is read; exit 2 for what is no option or value, 1 for what
is out of range."""
import os
import pathlib
import shutil
import subprocess

from flow import KILN, FlowTest, files_below, kiln, main

# Per option: lowest and highest value, and what lies below and above with the designer's code for it.
POSITIVE, FROM_ZERO, WITHIN = (4, 7), (5, 7), (8, 8)
MILLION = 10**6
RANGES = [("epochs", 1, MILLION, POSITIVE), ("batch_size", 1, MILLION, POSITIVE),
          ("num_warmup_steps", 0, MILLION, FROM_ZERO), ("patience", 1, MILLION, POSITIVE),
          ("print_freq", 1, 1000 * MILLION, POSITIVE), ("image_size", 16, 2048, WITHIN),
          ("random_seed", -2**63, 2**63 - 1, WITHIN), ("loader_threads", 1, 256, POSITIVE),
          ("threads", 1, 1024, POSITIVE), ("max_bad_images", 0, 1000 * MILLION, FROM_ZERO)]
NUMBERS = [name for name, *_ in RANGES] + ["learning_rate"]
CHOICES = ["device", "save", "normalization", "on_bad_image"]
PATHS = ["untrained_model_path", "train_data_path", "valid_data_path", "trained_model_path"]


def flag(name):
    return "--" + name.replace("_", "-")


class CommandLineTest(FlowTest):
    def test_values_out_of_range(self):
        bad = [(name, lowest - 1, codes[0]) for name, lowest, _, codes in RANGES]
        bad += [(name, highest + 1, codes[1]) for name, _, highest, codes in RANGES]
        bad += [("learning_rate", value, code) for value, code in [
            (0, 4), ("-0.1", 4), (1001, 7), ("1e999", 7), ("nan", 32), ("inf", 33), ("-inf", 33)]]
        bad += [("max_bad_images", "101%", 7), ("max_bad_images", "-1%", 5), ("epochs", 10**30, 7)]
        for name, value, code in bad:
            with self.subTest(option=name, value=value):
                self.assert_fails(self.train(**{name: value}), 1, code, f"{flag(name)} is {value}, but must be")

    def test_the_ends_of_the_ranges_are_accepted(self):
        for end, more in [(1, {"learning_rate": "1e-300"}), (2, {"learning_rate": 1000})]:
            with self.subTest(end=end):
                options = {row[0]: row[end] for row in RANGES}
                result = self.train(train_data_path=self.folder / "nowhere", **options, **more)
                self.assert_fails(result, 1, 18, "nowhere")
                for name in NUMBERS:
                    self.assertNotIn(flag(name) + " ", result.stderr)
        lowest = {name: low for name, low, *_ in RANGES}
        result = self.train(**{**lowest, "batch_size": 2, "learning_rate": "1e-300"})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_values_that_are_not_numbers_or_choices(self):
        for value in ("two", "1.5x", "0x10", "1,5"):
            with self.subTest(value=value):
                result = self.train(**{name: value for name in NUMBERS + CHOICES})
                self.assert_fails(result, 2, 2, *[f"{flag(name)} is '{value}', but must be" for name in NUMBERS + CHOICES])
        self.assert_fails(self.train(epochs="2.0"), 2, 2, "--epochs is '2.0'")
        self.assert_fails(self.train(device="gpu"), 2, 2, "auto, cuda or cpu")

    def test_empty_values(self):
        names = NUMBERS + CHOICES + PATHS
        result = self.train(**{name: "" for name in names})
        self.assert_fails(result, 2, 2, *[f"{flag(name)} is empty, but must be" for name in names])

    def test_options_given_twice(self):
        names = PATHS + ["epochs", "batch_size"]
        result = kiln(*self.train_arguments(), *[word for name in names for word in (flag(name), "7")])
        self.assert_fails(result, 2, 2, *[f"{flag(name)} is given twice" for name in names])

    def test_unknown_options_suggest_the_right_ones(self):
        names = NUMBERS + CHOICES + PATHS
        arguments = ["train", "--log-path", self.folder / "logs"]
        result = kiln(*arguments, *[word for name in names for word in (flag(name)[:-1], "1")])
        self.assert_fails(result, 2, 2, *[f"Did you mean '{flag(name)}'?" for name in names])
        self.assert_fails(self.train(colour="red"), 2, 2, "--colour is not an option", "kiln train --help")

    def test_what_a_flag_overrules_in_the_config_file_is_said(self):
        """The form of a designer sends a flag for every option that it shows."""
        config = self.folder / "run.yaml"
        config.write_text("epochs: 90\nbatch_size: 8\n")
        result = self.train(config=config, epochs=5, train_data_path=self.folder / "nowhere")
        self.assertIn("is overridden by flags: epochs 90 -> 5\n", result.stdout + result.stderr)

    def test_missing_options_and_values(self):
        result = kiln("train", "--log-path", self.folder / "logs", "--epochs")
        self.assert_fails(result, 2, 2, "--epochs needs a value", *[f"{flag(name)} DIR is missing" for name in PATHS])

    def test_without_log_path_nothing_is_written_into_the_folder_of_a_finished_run(self):
        logs = self.folder / "logs/module_statistics"
        logs.mkdir(parents=True)
        (logs / "error_info.json").write_text("of the finished run")
        environment = {name: value for name, value in os.environ.items() if name != "AZUREML_RUN_ID"}
        for arguments in (self.train_arguments(log_path=None, epochs=0), ["train", "--epohcs", 3],
                          ["launch", "--ranks", 0, "--", *self.train_arguments(log_path=None)]):
            before = files_below(self.folder)
            result = subprocess.run([KILN, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                                    env=environment)
            self.assertIn(result.returncode, (1, 2), result.stderr)
            self.assertEqual(files_below(self.folder), before)

    def test_unknown_command(self):
        result = kiln("trian")
        self.assertEqual(result.returncode, 2)
        self.assertIn("Did you mean 'train'?", result.stderr)

    def test_paths_that_get_in_each_others_way(self):
        result = self.train(log_path=self.folder / "model/logs")
        self.assert_refused(result, 2, "--log-path", "is inside --trained-model-path")
        self.assertFalse((self.folder / "model").exists())
        for target in (self.data / "train", self.data / "train/inner", self.data, self.untrained):
            with self.subTest(target=target):
                before = sorted(pathlib.Path(target).rglob("*"))
                self.assert_fails(self.train(trained_model_path=target), 2, 2, "--trained-model-path")
                self.assertEqual(sorted(pathlib.Path(target).rglob("*")), before)


class OrderTest(FlowTest):
    """The problems of a stage, first the command line's, then the inputs', are told together; the first gives code and exit
    status."""

    def assert_order(self, result, exit_code, code, *words):
        self.assert_fails(result, exit_code, code, *words)
        places = [result.stderr.index(str(word)) for word in words]
        self.assertEqual(places, sorted(places), result.stderr)
        message = self.error_info()["Message"]
        for word in words:
            self.assertIn(str(word), message)

    def test_nothing_is_read_for_a_wrong_command_line(self):
        wrong = {"train_data_path": self.folder / "no-train", "valid_data_path": self.folder / "no-valid",
                 "untrained_model_path": self.folder / "no-model"}
        cases = [({"epochs": 0, **wrong}, 1, 4, ["--epochs"]),
                 ({"epochs": 0, "patience": "x", **wrong}, 2, 2, ["--patience", "--epochs"]),
                 ({"epochs": 0, "batch_size": 1000}, 1, 4, ["--epochs"]),
                 ({"epochs": 0, **wrong, "valid_data_path": None}, 2, 2, ["--valid-data-path", "--epochs"])]
        for options, exit_code, code, words in cases:
            with self.subTest(options=options):
                result = self.train(**options)
                self.assert_order(result, exit_code, code, *words)
                self.assertEqual(len(result.stderr.splitlines()), len(words), result.stderr)
                self.assertEqual(len(self.error_info()["Message"].splitlines()), len(words))

    def test_faults_of_launch_and_its_ranks_command_line_come_together(self):
        result = kiln("launch", "--ranks", 0, "--", *self.train_arguments(epochs=0, patience="x"))
        self.assert_order(result, 2, 2, "--patience", "--ranks", "--epochs")

    def test_every_kind_of_input_fault_comes_in_its_place(self):
        occupied = self.folder / "occupied"
        occupied.mkdir()
        (occupied / "thesis.tex").write_text("precious")
        train, valid, model = (self.folder / name for name in ("no-train", "no-valid", "no-model"))
        result = self.train(train_data_path=train, valid_data_path=valid, untrained_model_path=model,
                            trained_model_path=occupied)
        self.assert_order(result, 1, 18, "Training dataset", "Validation dataset", "no-model", "thesis.tex")
        result = self.train(valid_data_path=valid, untrained_model_path=model, batch_size=1000,
                            trained_model_path=occupied)
        self.assert_order(result, 1, 18, "Validation dataset", "no-model", "Batch size", "thesis.tex")
        result = self.train(untrained_model_path=model, batch_size=1000, trained_model_path=occupied)
        self.assert_order(result, 1, 2000, "no-model", "Batch size", "thesis.tex")
        result = self.train(batch_size=1000, trained_model_path=occupied)
        self.assert_order(result, 1, 7, "Batch size", "thesis.tex")
        self.assert_order(self.train(trained_model_path=occupied), 3, 160, "thesis.tex")

    def test_weights_of_another_network_come_before_the_batch_size(self):
        other = self.folder / "untrained"
        shutil.copytree(self.untrained, other)
        spec = other / "model_spec.yaml"
        spec.write_text(spec.read_text().replace("resnet18", "resnet34"))
        result = self.train(untrained_model_path=other, batch_size=1000)
        self.assert_order(result, 1, 159, "model.layer1.2.conv1.weight", "Batch size")


if __name__ == "__main__":
    main()
