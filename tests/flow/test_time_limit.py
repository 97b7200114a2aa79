"""Runs that end by their time, and the file that repeats a run to the bit."""
import json
import signal

from flow import FlowTest, kiln, main
from resumed_runs import ENVIRONMENT, Job, assert_nothing_to_do, assert_refused

SLACK = 60  # seconds: other tests share the machine


class LengthTest(FlowTest):
    def job(self, name, **options):
        endless = {"epochs": 100000, "patience": 100000, "checkpoint_every": "1step", **options}
        return Job(self.folder / name, self.untrained, self.data, **endless)

    def ended(self, job, *more):
        code, output = job.run(*more)
        self.assertEqual(code, 0, output)
        return output

    def record_of_end(self, job):
        end = job.events("end")[-1]
        self.assertEqual(end["status"], "finished")
        self.assertEqual(end["stopped_early"], "time-limit")
        self.assertEqual(kiln("inspect", job.folder / "model").returncode, 0)
        return end

    def assert_repeats(self, job):
        """The file in the log folder makes the same model, and names no time."""
        text = (job.folder / "logs/repeat.yaml").read_text()
        self.assertNotRegex(text, "(?m)^time-limit")
        words = ["train", "--config", "logs/repeat.yaml", "--trained-model-path", "model2", "--log-path", "logs2"]
        again = kiln(*words, cwd=job.folder, environment=ENVIRONMENT)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        models = [(job.folder / name / "model").read_bytes() for name in ("model", "model2")]
        self.assertTrue(models[0] == models[1], text)
        return text


class TimeLimitTest(LengthTest):
    def test_two_ranks_end_in_time_and_repeat(self):
        job = self.job("run", ranks=2, batch_size=6, time_limit="6s")
        self.ended(job)
        self.assertEqual(job.events("end")[-1]["stopped_early"], "time-limit")
        self.assertLess(self.record_of_end(job)["total_seconds"], 6 + SLACK)
        for length in job.events("length"):
            self.assertGreaterEqual(length["num_epochs"], len(job.events("epoch")))
        told = json.loads(kiln("inspect", job.folder / "checkpoints", "--json").stdout)
        self.assertEqual(told["finished"], "time-limit")
        assert_nothing_to_do(self, job)
        self.assertIn("\nranks: 2", self.assert_repeats(job))

    def test_less_than_a_step_makes_one_and_a_model(self):
        """And the step after which it struck is repeated."""
        job = self.job("run", checkpoint_path=None, checkpoint_every=None, time_limit="1s", image_size=384)
        output = self.ended(job)
        self.record_of_end(job)
        self.assertEqual([epoch["num_steps"] for epoch in job.events("epoch")], [1])
        self.assertIn("is too short: one step and one validation", output)
        self.assertRegex(self.assert_repeats(job), r"(?m)^steps: 1\b")

    def test_the_time_of_earlier_processes_counts(self):
        limit = 20  # killed in its second step, which on a busy machine took 4 s to come
        job = self.job("run", time_limit=f"{limit}s")
        job.stop_after(2, signal.SIGKILL, checkpointed=True)
        newest = max(job.folder.glob("checkpoints/checkpoint-*"))
        usage, = (line for line in (newest / "metrics.jsonl").read_text().splitlines() if '"event":"usage"' in line)
        self.ended(job)
        self.assertEqual(len(job.events("resume")), 1)
        end = self.record_of_end(job)
        self.assertGreater(end["total_seconds"], json.loads(usage)["total_seconds"])
        self.assertLess(end["total_seconds"], limit + SLACK)

    def test_another_limit_is_refused_on_resuming(self):
        job = self.job("run", epochs=1, time_limit="1h")
        self.ended(job)
        assert_nothing_to_do(self, self.job("run", epochs=1, time_limit="60min"))
        assert_refused(self, self.job("run", epochs=1, time_limit="2h"), "--time-limit")


class RepeatTest(LengthTest):
    def test_a_default_run(self):
        job = self.job("run", epochs=2, patience=3, checkpoint_path=None, checkpoint_every=None)
        self.ended(job)
        text = self.assert_repeats(job)
        self.assert_names(text, "\nepochs: 2\n", "\n# image-size: 32x32")
        self.assertNotIn("model-path: model", text)

    def test_steps_end_within_an_epoch(self):
        job = self.job("run", epochs=None, steps=6)  # 4 an epoch
        self.ended(job)
        self.assertEqual([event["num_steps"] for event in job.events("epoch")], [4, 2])
        self.assertEqual(job.events("end")[-1]["stopped_early"], "")
        assert_nothing_to_do(self, job)
        self.assert_repeats(job)

    def test_steps_that_end_a_longer_schedule_are_what_is_told(self):
        job = self.job("run", epochs=5, steps=6)
        self.ended(job)
        self.assertEqual({event["num_epochs"] for event in job.events("start") + job.events("step")}, {2})
        self.assertLess(job.events("step")[-1]["seconds_left"], job.events("step")[0]["seconds_left"])

    def test_more_steps_than_epochs_have(self):
        assert_refused(self, self.job("run", epochs=1, steps=6), "--steps is 6")


if __name__ == "__main__":
    main()
