"""An option that is given with its default, where leaving it out lets the run settle it: what repeats a run, and what resumes it."""
import json
import re

from flow import FlowTest, kiln, main
from resumed_runs import ENVIRONMENT, Job, assert_refused

RATE = "0.0072"  # settled for SGD and 24 images a step


class GivenTest(FlowTest):
    def job(self, **options):
        """Two steps an epoch."""
        return Job(self.folder / "run", self.untrained, self.data,
                   **{"untrained_model_path": None, "model_name": "resnet18", "batch_size": 24, **options})

    def ended(self, job):
        code, output = job.run()
        self.assertEqual(code, 0, output)
        return output


class RepeatTest(GivenTest):
    def assert_repeats(self, words, **options):
        job = self.job(checkpoint_path=None, checkpoint_every=None, **options)
        self.ended(job)
        self.assert_names(job.events("start")[0]["command"], *(f"--{word}" for word in words))
        text = (job.folder / "logs/repeat.yaml").read_text()
        again = kiln("train", "--config", "logs/repeat.yaml", "--trained-model-path", "model2", "--log-path", "logs2",
                     cwd=job.folder, environment=ENVIRONMENT)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        models = [(job.folder / name / "model").read_bytes() for name in ("model", "model2")]
        self.assertTrue(models[0] == models[1], text)

    def test_the_rate(self):
        self.assert_repeats(["learning-rate 0.001"], learning_rate=0.001)

    def test_the_epochs_of_a_schedule_that_steps_end(self):
        self.assert_repeats(["epochs 5", "steps 3"], epochs=5, steps=3)

    def test_the_augmentation_of_auto(self):
        self.assert_repeats(["augment none", "auto True"], weights=self.trained_model, auto=True, augment="none", epochs=1)


class ResumeTest(GivenTest):
    def test_another_rate_than_the_settled_one_is_refused(self):
        self.ended(self.job(epochs=1))
        assert_refused(self, self.job(learning_rate=0.001), "--learning-rate", RATE, "0.001")
        self.ended(self.job(learning_rate=RATE))

    def test_another_schedule_than_that_of_the_steps_is_refused(self):
        job = self.job(epochs=None, steps=8, image_size=64)
        job.stop_after(2)
        assert_refused(self, self.job(epochs=5, steps=8, image_size=64), "--epochs was 4 and is now 5")
        self.ended(job)

    def test_another_augmentation_than_that_of_auto_is_refused(self):
        options = {"weights": self.trained_model, "auto": True}
        self.ended(self.job(epochs=1, **options))
        assert_refused(self, self.job(augment="none", **options), "--augment", "flip", "none")
        self.ended(self.job(**options))

    def test_auto_that_an_option_would_turn_off_is_refused(self):
        options = {"weights": self.trained_model, "train_data_path": None, "valid_data_path": None, "data_path": "data/train"}
        job = self.job(epochs=None, image_size=64, **options)
        job.stop_after(2)
        assert_refused(self, self.job(epochs=5, image_size=64, **options), "--auto", "True", "False")
        self.ended(job)

    def test_other_ranks_keep_the_rates_again_and_again(self):
        for rate, options, times in ((RATE, {"head_learning_rate": 0.01}, 1), (0.001, {"learning_rate": 0.001}, 2)):
            with self.subTest(options=options):
                self.folder = self.folder / str(times)
                self.ended(self.job(epochs=1, **options))
                for epochs in range(2, 2 + times):
                    output = self.ended(self.job(epochs=epochs, batch_size=12, ranks=2, **options))
                    plan = re.search("plan: .*", output).group()
                    self.assert_names(plan, f", learning rate {rate},")
                    self.assertEqual(re.findall("of the last layer (.*)", plan), ["0.01"] * (times == 1), plan)


class WeightsTest(GivenTest):
    def test_weights_that_are_not_yet_averages_are_told(self):
        job = self.job(ema=0.9, checkpoint_every="1step", image_size=64, batch_size=12)
        job.stop_after(2)
        told = json.loads(kiln("inspect", job.folder / "checkpoints", "--json").stdout)
        self.assertEqual(told["epochs_done"], 0)
        result = self.train(untrained_model_path=None, model_name="resnet18", weights=job.folder / "checkpoints")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_names(result.stdout, "without a finished epoch", "--ema average")


if __name__ == "__main__":
    main()
