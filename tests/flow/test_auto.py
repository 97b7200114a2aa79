"""Runs that decide themselves how given weights are used: a head on frozen features, then fine-tuning if that is better."""
import json
import struct

import weight_files
from flow import FlowTest, kiln, main
from resumed_runs import ENVIRONMENT, Job, assert_nothing_to_do, differences


class AutoTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.weights = self.folder / "weights.pth"
        made = self.train(trained_model_path=self.folder / "other", log_path=self.folder / "other-logs")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.write_weights({})

    def write_weights(self, changed):
        """Those of a short training, with other values of some tensors, each one number repeated."""
        state = weight_files.torchvision_names(weight_files.read_zip(self.folder / "other/model"))
        for name, value in changed.items():
            count = len(state[name].data) // 4
            state[name].data = struct.pack(f"<{count}f", *[value] * count)
        weight_files.write_zip(self.weights, state)

    def job(self, name, data=None, **options):
        return Job(self.folder / name, self.untrained, data or self.data,
                   **{"untrained_model_path": None, "train_data_path": None, "valid_data_path": None,
                      "data_path": "data/train", "model_name": "resnet18", "weights": self.weights, "auto": True, **options})

    def ended(self, job):
        code, output = job.run()
        self.assertEqual(code, 0, output)
        return output

    def found(self, job):
        return json.loads((job.folder / "model/training.json").read_text())["automatic"]

    def repeated(self, job):
        """The text of repeat.yaml, which makes the same model."""
        text = (job.folder / "logs/repeat.yaml").read_text()
        again = kiln("train", "--config", "logs/repeat.yaml", "--trained-model-path", "model2", "--log-path", "logs2",
                     cwd=job.folder, environment=ENVIRONMENT)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertTrue((job.folder / "model/model").read_bytes() == (job.folder / "model2/model").read_bytes(), text)
        return text

    def test_a_stop_in_the_second_part_resumes_to_the_bit(self):
        straight, resumed = self.job("straight"), self.job("resumed")
        self.assertRegex(self.ended(straight), r"two parts: +one pass through the frozen network")
        resumed.stop_after(4)
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])
        self.assertEqual([event["epoch"] for event in resumed.events("epoch")], [1, 2, 3])
        assert_nothing_to_do(self, resumed)

    def test_what_is_fine_tuned_is_kept_where_it_is_better(self):
        """Its features say nothing of the frozen network, since the first BatchNorm expects other images."""
        made = kiln("demo-data", "--output-path", self.folder / "more", "--images", 180, "--classes", 3, "--size", 32)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.write_weights({"bn1.running_mean": 100.0})
        job = self.job("run", self.folder / "more", epochs=8, batch_size=8, threads=2, learning_rate=0.01, checkpoint_path=None,
                       checkpoint_every=None)
        output = self.ended(job)
        found = self.found(job)
        self.assertTrue(found["keeps_tuned"], output)
        self.assertGreater(found["tuned"]["top1"], found["frozen"]["top1"])
        self.assertEqual(job.events("end")[-1]["saved_epoch"], found["tuned_epoch"])
        self.assertIn(found["reason"], output)

    def test_the_head_is_kept_where_fine_tuning_makes_it_worse(self):
        job = self.job("run", epochs=2, batch_size=4, learning_rate=1, time_limit="1h", checkpoint_path=None,
                       checkpoint_every=None)
        output = self.ended(job)
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2, 3])
        self.assert_names(output, "1h: 3 epochs fit", "at most 3, is set after epoch 2", "of 3\n")  # with that of the head
        found = self.found(job)
        self.assertEqual((found["keeps_tuned"], job.events("end")[-1]["saved_epoch"]), (False, 1), output)
        self.assertGreater(found["tuned_epoch"], 1)
        self.assertLess(found["tuned"]["top1"], found["frozen"]["top1"])
        self.assertIn(found["reason"], output)

    def test_without_time_the_frozen_network_is_kept(self):
        job = self.job("run", time_limit="1s", image_size=128, checkpoint_path=None, checkpoint_every=None)
        output = self.ended(job)
        found = self.found(job)
        self.assertEqual((found["keeps_tuned"], found["tuned_epoch"]), (False, 0), output)
        self.assertEqual(job.events("end")[-1]["stopped_early"], "time-limit")
        text = self.repeated(job)
        self.assert_names(text, "\nauto: False ", "\nfreeze: backbone ")
        self.assertNotIn("time-limit:", text)
        self.assertRegex(text, r"\nweights: .* # SHA-256 [0-9a-f]{64}\n")

    def test_two_ranks(self):
        job = self.job("run", ranks=2, batch_size=6, epochs=1)
        self.ended(job)
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2])
        self.assertEqual(job.events("end")[-1]["saved_epoch"], 2 if self.found(job)["keeps_tuned"] else 1)

    def test_an_option_that_it_decides_turns_it_off(self):
        output = self.ended(self.job("run", auto=None, epochs=1))
        self.assertRegex(output, r"auto: +False \(--epochs is given; --auto True")

    def test_a_head_fitted_too_late_is_told(self):
        output = self.ended(self.job("run", auto=None, freeze="backbone", epochs=None, image_size=224, time_limit="1s",
                                     checkpoint_path=None, checkpoint_every=None))
        self.assertRegex(output, r"time limit: +1s; ends the fit")
        self.assertRegex(output, r"--time-limit 1s (is too short|ended the fit)")


if __name__ == "__main__":
    main()
