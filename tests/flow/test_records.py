#!/usr/bin/env python3
"""What a run leaves in its --log-path, read by Python's json and csv and by TensorBoard's own reader."""
import csv
import fcntl
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time

import flow

HOSTILE = 'a "quoted", <script>name<b>'
METRICS = ["learning rate", "Train images per second", "Train loss", "Train error", "Valid loss",
           "Top-1 validation accuracy", "Top-5 validation accuracy"]


def events(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


class Records(flow.FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, place, ignore_errors=True)
        for part in ("train", "val"):
            shutil.copytree(cls.data / part, place / part)
            first = sorted((place / part).iterdir())[0]
            first.rename(first.with_name(HOSTILE))
        cls.data, cls.logs, cls.model = place, place / "logs", place / "model"
        result = flow.kiln("train", "--untrained-model-path", cls.untrained, "--train-data-path", cls.data / "train",
                           "--valid-data-path", cls.data / "val", "--trained-model-path", cls.model, "--log-path", cls.logs,
                           "--epochs", 2, "--batch-size", 24, "--threads", 1, "--print-freq", 1)
        assert result.returncode == 0, result.stderr
        cls.said = result.stdout

    def test_metrics_jsonl_holds_the_whole_run(self):
        told = events(self.logs)
        kinds = [event["event"] for event in told]
        self.assertEqual(kinds[0], "start")
        self.assertEqual(kinds[-1], "end")
        epochs = [event for event in told if event["event"] == "epoch"]
        training = json.loads((self.model / "training.json").read_text())
        self.assertEqual([list(epoch["metrics"])[:7] for epoch in epochs], [METRICS] * 2)
        for epoch, kept in zip(epochs, training["epochs"]):
            self.assertEqual(epoch["metrics"]["Valid loss"], kept["valid_loss"])
            self.assertEqual(epoch["metrics"]["Top-1 validation accuracy"], kept["top1"])
            parts = epoch["seconds"]
            self.assertGreater(parts["forward"], 0)
            self.assertGreater(parts["backward"], 0)
            self.assertLessEqual(sum(parts.values()), epoch["train_seconds"])
        self.assertIn(HOSTILE, told[0]["data"]["classes"])
        self.assertEqual(told[-1]["status"], "finished")

    def test_the_judgement_counts_every_validation_image(self):
        kept = [event["judgement"] for event in events(self.logs) if "judgement" in event][-1]
        images = sum(path.is_file() for path in (self.data / "val").rglob("*"))
        self.assertEqual(sum(cell[2] for cell in kept["confusion"]["cells"]), images)
        right = sum(count for truth, guess, count in kept["confusion"]["cells"] if truth == guess)
        training = json.loads((self.model / "training.json").read_text())
        self.assertAlmostEqual(right / images, training["epochs"][training["saved_epoch"] - 1]["top1"])
        shown = flow.gallery_of(self.logs)
        wrong = [image for image in shown if image["truth"] != image["guess"]]
        confidences = [image["confidence"] for image in wrong]
        self.assertEqual(confidences, sorted(confidences, reverse=True))
        self.assertEqual(shown[:len(wrong)], wrong)
        self.assertEqual(len(wrong), images - right)
        for image in shown:
            self.assertTrue((self.data / "val" / image["file"]).exists())
            self.assertEqual((image["best"][0]["label"], image["best"][0]["share"]), (image["guess"], image["confidence"]))
            self.assertGreater(image["thumbnail"]["bytes"], 0)

    def test_every_epoch_has_macro_recall_and_f1(self):
        told = events(self.logs)
        training = json.loads((self.model / "training.json").read_text())
        epochs = [event for event in told if event["event"] == "epoch"]
        for epoch, kept in zip(epochs, training["epochs"]):
            self.assertEqual(epoch["valid_macro"]["recall"], epoch["metrics"]["Validation/macro recall"])
            self.assertEqual(epoch["valid_macro"], {"recall": kept["macro_recall"], "f1": kept["macro_f1"]})
        judged = [epoch for epoch in epochs if "judgement" in epoch][-1]
        cells, classes = judged["judgement"]["confusion"]["cells"], range(len(told[0]["data"]["classes"]))
        images = [sum(cell[2] for cell in cells if cell[0] == one) for one in classes]
        guesses = [sum(cell[2] for cell in cells if cell[1] == one) for one in classes]
        hits = [sum(cell[2] for cell in cells if cell[0] == cell[1] == one) for one in classes]
        recalls = [hit / count for hit, count in zip(hits, images)]
        f1s = [2 * hit / (count + guess) for hit, count, guess in zip(hits, images, guesses)]
        self.assertAlmostEqual(judged["valid_macro"]["recall"], sum(recalls) / len(recalls))
        self.assertAlmostEqual(judged["valid_macro"]["f1"], sum(f1s) / len(f1s))
        self.assertRegex(self.said, r"macro recall +\d+(\.\d+)? %, macro F1 \d\.\d{3}")
        page = (self.logs / "report.html").read_text()
        value = float(re.search(r'id="macro-recall" value="([^"]+)"', page)[1])
        self.assertAlmostEqual(value, judged["valid_macro"]["recall"], places=6)

    def test_epochs_csv_is_a_table(self):
        with open(self.logs / "epochs.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        told = [event["metrics"] for event in events(self.logs) if event["event"] == "epoch"]
        self.assertEqual([row["epoch"] for row in rows], ["1", "2"])
        for row, metrics in zip(rows, told):
            self.assertEqual(list(row)[1:8], METRICS)
            for name, value in metrics.items():
                self.assertAlmostEqual(float(row[name]), value, delta=1e-6 * abs(value))

    def test_tensorboard_reads_the_event_file(self):
        reader = flow.tensorboard_of(self, self.logs / "tensorboard")
        from tensorboard.plugins.hparams import plugin_data_pb2
        told = [event["metrics"] for event in events(self.logs) if event["event"] == "epoch"]
        for name in told[0]:
            points = reader.Scalars(name)
            self.assertEqual([point.step for point in points], [1, 2])
            for point, metrics in zip(points, told):
                self.assertAlmostEqual(point.value, metrics[name], delta=1e-6 * abs(metrics[name]))
        picture = reader.Images("Confusion matrix")[-1]
        self.assertTrue(picture.encoded_image_string.startswith(b"\x89PNG"))
        self.assertEqual(picture.width, 480)
        self.assertTrue(reader.Images("Answers/1")[-1].encoded_image_string.startswith(b"\xff\xd8"))
        shown = [tag for tag in reader.Tags()["images"] if tag.startswith("Answers/")]
        self.assertTrue(any(HOSTILE in reader.SummaryMetadata(tag).summary_description for tag in shown))
        start = plugin_data_pb2.HParamsPluginData.FromString(
            reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
        self.assertEqual(start.session_start_info.hparams["epochs"].string_value, "2")

    def test_every_record_of_the_event_file_is_framed(self):
        # TensorBoard's reader stops without a word at the first damaged record.
        data = pathlib.Path(glob.glob(str(self.logs / "tensorboard/events.out.tfevents.*"))[0]).read_bytes()
        count = at = 0
        while at < len(data):
            length, = struct.unpack_from("<Q", data, at)
            at += 16 + length
            count += 1
        self.assertEqual(at, len(data))
        steps = sum(1 for event in events(self.logs) if event["event"] in ("step", "epoch"))
        self.assertGreaterEqual(count, steps)

    def test_the_console_ends_with_a_table(self):
        rows = [line for line in self.said.splitlines() if line[:9] in ("*     1  ", "*     2  ", "      1  ", "      2  ")]
        self.assertEqual(len(rows), 2, self.said)
        self.assertEqual(sum(row.startswith("*") for row in rows), 1)

    def test_a_second_run_leaves_the_records_and_the_log_of_the_first_alone(self):
        logs = self.folder / "logs"
        logs.mkdir()
        (logs / "70_driver_log_0.txt").write_text("of the first\n")
        (logs / "metrics.jsonl").write_text("of the first\n")
        (logs / ".kiln-lock").touch()
        before = flow.files_below(logs)
        with (logs / ".kiln-lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for ranks in (None, 2):
                result = self.train(threads=1, ranks=ranks)
                self.assert_refused(result, 3, logs)
                self.assertEqual(flow.files_below(logs), before)

    def test_a_killed_run_leaves_whole_lines_and_its_page(self):
        run = subprocess.Popen([flow.KILN, *map(str, self.train_arguments(epochs=1000, patience=1000, print_freq=1, threads=1))],
                               stdout=subprocess.PIPE, text=True)
        page = self.folder / "logs/report.html"
        for line in flow.driver_log(run, self.folder / "logs"):
            if "Epoch: [2/" in line and page.exists():
                break
        run.send_signal(signal.SIGKILL)
        run.stdout.close()
        run.wait()
        told = events(self.folder / "logs")
        self.assertGreaterEqual(sum(event["event"] == "step" for event in told), 2)
        self.assertNotIn("end", [event["event"] for event in told])
        self.assertIn('http-equiv="refresh"', page.read_text())
        self.assertRegex(flow.kiln("report", self.folder / "logs").stdout, "failed")
        self.assertNotIn('http-equiv="refresh"', page.read_text())

    def test_the_page_of_a_run_that_has_ended_stays_as_it_is(self):
        self.assertNotIn('http-equiv="refresh"', (self.logs / "report.html").read_text())

    def test_a_run_that_fails_says_so_in_its_record(self):
        result = self.train(learning_rate=1000, epochs=3, threads=1)
        self.assertNotEqual(result.returncode, 0)
        end = events(self.folder / "logs")[-1]
        self.assertEqual(end["status"], "failed")
        self.assertIn("diverged", end["failure"])

    def test_a_run_that_fails_in_its_first_epoch_leaves_the_earlier_record_and_names_the_earlier_model(self):
        shutil.copytree(self.logs, self.folder / "logs")
        shutil.copytree(self.model, self.folder / "model")
        data = self.copy_data()
        next(path for path in data.rglob("*") if path.is_file()).write_bytes(b"no image")
        before = flow.files_below(self.folder / "logs")
        result = self.train(train_data_path=data, image_size=32, on_bad_image="fail", threads=1)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stdout, f"No model was written; '{self.folder / 'model'}' still holds the model of ....-..-..")
        after = flow.files_below(self.folder / "logs")
        for name in before:
            if not name.startswith(("70_driver_log", "module_statistics", "first_batch")):
                self.assertEqual(after[name], before[name], name)
        self.assertEqual(after["first_batch.before.jpg"], before["first_batch.jpg"])
        self.assertEqual(json.loads(after["metrics.jsonl.next"].splitlines()[-1])["status"], "failed")

    def test_a_full_disk_under_the_logs_stops_nothing(self):
        logs = self.folder / "logs"
        logs.mkdir()
        (logs / "metrics.jsonl").symlink_to("/dev/full")
        (logs / "epochs.csv").symlink_to("/dev/full")
        (logs / "tensorboard").symlink_to("/sys/kernel")  # a folder that takes no file
        result = self.train(threads=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("warning: metrics.jsonl"), 1)
        lost = re.findall(r"^  lost +([\w.]+):", result.stdout, re.M)
        self.assertLessEqual({"metrics.jsonl", "epochs.csv", "TensorBoard"}, set(lost), result.stdout)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())

    def test_a_full_disk_under_the_log_file_is_told_once(self):
        logs = self.folder / "logs"
        logs.mkdir()
        (logs / "70_driver_log_0.txt").symlink_to("/dev/full")
        result = self.train(threads=1, print_freq=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stderr.count("70_driver_log_0.txt' cannot be written: No space left on device"), 1)
        self.assertNotIn("LOG ERROR", result.stderr)
        self.assertRegex(result.stdout, r"lost              \d+ lines of the log: '.*' cannot be written: No space left")

    def test_records_that_are_removed_meanwhile_count_as_lost(self):
        run = subprocess.Popen([flow.KILN, *map(str, self.train_arguments(epochs=6, patience=6, print_freq=1, threads=1))],
                               stdout=subprocess.PIPE, text=True)
        for line in flow.driver_log(run, self.folder / "logs"):
            if "Epoch: [2/" in line:
                break
        (self.folder / "logs/metrics.jsonl").unlink()
        said = run.stdout.read()
        self.assertEqual(run.wait(), 0, said)
        self.assertRegex(said, r"lost              metrics.jsonl: \d+ records? lost")

    def test_a_run_that_was_killed_continues_its_records(self):
        words = self.train_arguments(epochs=3, patience=9, print_freq=1, threads=1, loader_threads=1, batch_size=8,
                                     checkpoint_path=self.folder / "checkpoints", checkpoint_every="4steps")
        run = subprocess.Popen([flow.KILN, *map(str, words)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        for line in flow.driver_log(run, self.folder / "logs"):
            if "Epoch: [2/3]\tIter: [5/" in line:
                break
        run.kill()
        run.stdout.close()
        run.wait()
        logs = self.folder / "logs"
        old = {path.name for path in (logs / "tensorboard").iterdir()}
        last = [event for event in events(logs) if event["event"] == "step"][-1]
        result = flow.kiln(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        told = events(logs)
        (resume,) = [event for event in told if event["event"] == "resume"]
        self.assertGreater(resume["epoch"], 0)
        self.assertGreater(resume["time"], told[0]["time"])
        lost = 6 * (last["epoch"] - resume["epoch"]) + last["step"] - resume["step"]
        self.assertEqual((last["num_steps"], resume["lost_steps"]), (6, max(0, lost)))
        steps = [(event["epoch"], event["step"]) for event in told if event["event"] == "step"]
        self.assertEqual(steps, [(epoch, step) for epoch in (1, 2, 3) for step in range(1, told[0]["steps_per_epoch"] + 1)])
        with open(logs / "epochs.csv", newline="", encoding="utf-8") as file:
            self.assertEqual([row["epoch"] for row in csv.DictReader(file)], ["1", "2", "3"])
        self.assertIn('id="interruptions"', (logs / "report.html").read_text())
        self.assertEqual(flow.kiln("report", logs, "--output-path", self.folder / "page.html").returncode, 0)
        new = {path.name for path in (logs / "tensorboard").iterdir()}
        self.assertEqual((len(new), new & old), (1, set()))
        self.assert_tensorboard_has_each_step_once(logs, len(steps))

    def assert_tensorboard_has_each_step_once(self, logs, num_steps):
        reader = flow.tensorboard_of(self, logs / "tensorboard")
        self.assertEqual([point.step for point in reader.Scalars("Train loss")], [1, 2, 3])
        self.assertEqual([point.step for point in reader.Scalars("Step/loss")], list(range(1, num_steps + 1)))

    def test_a_removed_log_folder_is_told_once_and_training_goes_on(self):
        logs = self.folder / "logs"
        run = subprocess.Popen([flow.KILN, *map(str, self.train_arguments(epochs=6, patience=6, print_freq=1, threads=1))],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        for line in flow.driver_log(run, self.folder / "logs"):
            if "Epoch: [2/" in line:
                break
        run.send_signal(signal.SIGSTOP)
        shutil.rmtree(logs)
        run.send_signal(signal.SIGCONT)
        said, errors = run.communicate(timeout=120)
        self.assertEqual(run.returncode, 0, said + errors)
        self.assertEqual(errors, "")
        self.assertEqual(len([line for line in said.splitlines() if "warning: " in line and str(logs) in line]), 1, said)
        self.assertEqual(len(self.training()["epochs"]), 6)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())
        self.assertNotIn("  report            ", said)

    def test_what_a_failed_run_lost_is_told(self):
        (self.folder / "logs/metrics.jsonl").mkdir(parents=True)
        result = self.train(learning_rate=1000, epochs=3, threads=1)
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stdout, "lost: metrics.jsonl: .*'" + str(self.folder / "logs/metrics.jsonl") + "' cannot be written")

    def test_closed_descriptors_are_no_records(self):
        result = flow.kiln(*self.train_arguments(threads=1), preexec=lambda: os.closerange(0, 3))
        self.assertEqual(result.returncode, 0)
        self.assertEqual([event["event"] for event in events(self.folder / "logs")][-1], "end")
        log = (self.folder / "logs/70_driver_log_0.txt").read_text().splitlines()
        self.assertTrue(all(line[:2] == "20" for line in log), log)

    def test_a_folder_in_the_place_of_a_sink_is_warned_of(self):
        logs = self.folder / "logs"
        (logs / "metrics.jsonl").mkdir(parents=True)
        (logs / "report.html").mkdir()
        (logs / "tensorboard").write_text("a file")
        result = self.train(threads=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_names(result.stdout, "metrics.jsonl", "tensorboard", "lost              report.html")
        self.assertNotIn("  report            ", result.stdout)


if __name__ == "__main__":
    flow.main()
