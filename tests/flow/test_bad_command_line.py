"""Wrong command lines: every fault named at once, before anything is read; exit 2 for what is no option or value, 1 for what
is out of range. A run for each code; every option's range and every wrong word are in tests/cli/."""
import os
import pathlib
import re
import shutil
import subprocess

from flow import KILN, FlowTest, files_below, kiln, main

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CommandLineTest(FlowTest):
    def test_a_run_for_each_code(self):
        for option, value, exit_code, code in (("epochs", 0, 1, 4), ("num_warmup_steps", -1, 1, 5), ("patience", 10**30, 1, 7),
                                               ("image_size", 15, 1, 8), ("learning_rate", "nan", 1, 32),
                                               ("learning_rate", "-inf", 1, 33), ("epochs", "2.0", 2, 2)):
            with self.subTest(option=option, value=value):
                self.assert_fails(self.train(**{option: value}), exit_code, code, "--" + option.replace("_", "-"), value)

    def test_all_faults_are_told_together(self):
        result = kiln("train", "--log-path", self.folder / "logs", "--epoch", 1, "--device", "gpu", "--batch-size", "",
                      "--save", "best", "--save", "last", "--print-freq")
        self.assert_fails(result, 2, 2, "'--epochs'", "--device", "--batch-size", "--save", "--print-freq",
                          "--train-data-path", "--valid-data-path")

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
        self.assert_refused(result, 2, "'train'")

    def test_options_of_other_trainers_are_answered(self):
        """Those in the left columns of docs/coming-from.md."""
        text = (ROOT / "docs/coming-from.md").read_text(encoding="utf-8")
        sections = [section for section in text.split("\n## ") if section.startswith(("timm", "torchvision"))]
        theirs = [line.split("|")[1] for section in sections for line in section.splitlines() if line.startswith("| ")]
        options = sorted(set(re.findall(r"`(--?[a-z][a-z-]*)", " ".join(theirs))))
        self.assertGreater(len(options), 50)
        result = kiln("train", *options)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(re.findall(r"(\S+) is not an option", result.stderr), [])

    def test_outputs_in_the_way_of_inputs(self):
        result = self.train(log_path=self.folder / "model/logs")
        self.assert_refused(result, 2, "--log-path", "--trained-model-path")
        self.assertFalse((self.folder / "model").exists())
        target = self.copy_data()
        before = sorted(target.rglob("*"))
        self.assert_fails(self.train(train_data_path=target, trained_model_path=target), 2, 2, "--trained-model-path")
        self.assertEqual(sorted(target.rglob("*")), before)


class OrderTest(FlowTest):
    """The problems of a stage, first the command line's, then the inputs', are told together; the first gives code and exit
    status."""

    def assert_order(self, result, exit_code, code, *words):
        self.assert_fails(result, exit_code, code, *words)
        places = [result.stderr.index(str(word)) for word in words]
        self.assertEqual(places, sorted(places), result.stderr)
        message = self.error_info()["Message"]
        self.assert_names(message, *words)

    def test_nothing_is_read_for_a_wrong_command_line(self):
        wrong = {"train_data_path": self.folder / "no-train", "valid_data_path": self.folder / "no-valid",
                 "untrained_model_path": self.folder / "no-model"}
        cases = [({"epochs": 0, **wrong}, 1, 4, ["--epochs"]),
                 ({"epochs": 0, "patience": "x", **wrong}, 2, 2, ["--patience", "--epochs"]),
                 ({"epochs": 0, "batch_size": 1000}, 1, 4, ["--epochs"])]
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
        result = self.train(untrained_model_path=model, batch_size=1000, trained_model_path=occupied)
        self.assert_order(result, 1, 2000, "no-model", "Batch size", "thesis.tex")
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
