"""The same command again continues where a checkpoint left it, and the result is that of an undisturbed run."""
import itertools
import json
import pathlib
import shutil
import signal
import tempfile

from flow import FlowTest, kiln, main
from resumed_runs import Job, differences


class ResumeTest(FlowTest):
    def job(self, name, data=None, **options):
        return Job(self.folder / name, self.untrained, data or self.data, **options)

    def ended(self, job, *more):
        code, output = job.run(*more)
        self.assertEqual(code, 0, output)
        return output

    def stopped(self, job, steps, with_signal):
        code, output = job.stop_after(steps, with_signal)
        self.assertEqual(code, -signal.SIGKILL if with_signal == signal.SIGKILL else 128 + with_signal, output)

    def assert_same(self, straight, resumed):
        self.assertEqual(differences(straight, resumed), [])

    def assert_goes_on(self, stops, **options):
        """A run stopped like this, again and again, leaves what an undisturbed one leaves."""
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        for steps, with_signal in stops:
            self.stopped(resumed, steps, with_signal)
        self.ended(resumed)
        self.assert_same(straight, resumed)
        self.assertGreaterEqual(len(resumed.events("resume")), 1)
        self.assertEqual(straight.events("resume"), [])


class EqualTest(ResumeTest):
    """To the bit."""

    def test_augmentations_caches_threads(self):
        cases = (("none", "decoded", 1), ("flip", "bytes", 2), ("standard", "none", 2), ("strong", "auto", 1))
        stops = itertools.cycle([[(2, signal.SIGTERM), (13, signal.SIGKILL)], [(7, signal.SIGINT), (11, signal.SIGHUP)]])
        for augment, cache, threads in cases:
            with self.subTest(augment=augment, cache=cache):
                for name in ("straight", "resumed"):
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                self.assert_goes_on(next(stops), augment=augment, cache=cache, loader_threads=threads)

    def test_at_the_end_of_epochs_only(self):
        self.assert_goes_on([(8, signal.SIGKILL), (15, signal.SIGKILL)], checkpoint_every="1epoch")

    def test_accumulation(self):
        self.assert_goes_on([(3, signal.SIGKILL), (5, signal.SIGTERM)], accumulate=2, checkpoint_every="1step", num_warmup_steps=2, learning_rate=0.05)

    def test_two_ranks(self):
        self.assert_goes_on([(4, signal.SIGTERM), (9, signal.SIGKILL)], ranks=2, batch_size=4, augment="standard")

    def test_two_ranks_with_synchronized_batch_norm(self):
        self.assert_goes_on([(8, signal.SIGTERM)], ranks=2, batch_size=4, sync_batch_norm=True)

    def test_bad_images_before_and_after(self):
        data = self.folder / "spoiled"
        shutil.copytree(self.data, data)
        for part in ("train", "val"):
            for path in sorted((data / part).rglob("*.png"))[::7]:
                path.write_bytes(path.read_bytes()[:60])
        self.assert_goes_on([(2, signal.SIGKILL), (8, signal.SIGTERM)], data=data, max_bad_images="50%")

    def test_early_stopping(self):
        options = {"patience": 1, "learning_rate": 0.3, "epochs": 8}
        self.assert_goes_on([(7, signal.SIGKILL)], **options)


class OtherCommandTest(ResumeTest):
    """Of a run that was stopped in its second epoch."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stopped_run = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, cls.stopped_run)
        code, output = Job(cls.stopped_run / "run", cls.untrained, cls.data).stop_after(8)
        assert code == 128 + signal.SIGTERM, output

    def setUp(self):
        super().setUp()
        shutil.copytree(self.stopped_run, self.folder, symlinks=True, dirs_exist_ok=True)
        self.run_ = self.job("run")

    def again(self, **options):
        return self.job("run", **options)

    def test_what_decides_the_result_must_stay(self):
        code, output = self.again(augment="flip", learning_rate=0.5, threads=2, loader_threads=1).run()
        self.assertEqual(code, 1)
        for word in ("--augment", "--learning-rate"):
            self.assertIn(word, output)
        for word in ("--threads", "--loader-threads"):
            self.assertNotIn(word, output)

    def test_other_data(self):
        (self.run_.folder / "data").unlink()
        shutil.copytree(self.data, self.run_.folder / "data")
        next((self.run_.folder / "data/train").rglob("*.png")).unlink()
        code, output = self.again().run()
        self.assertEqual(code, 1)
        self.assertIn("the training data had", output)

    def test_other_model(self):
        kiln("init-model", "resnet34", "--untrained-model-path", self.run_.folder / "other")
        code, output = self.again(untrained_model_path="other").run()
        self.assertEqual(code, 1)
        self.assertIn("model", output)

    def test_other_batch(self):
        code, output = self.again(batch_size=4).run()
        self.assertEqual(code, 1)
        self.assertIn("images", output)

    def test_fewer_epochs_than_reached(self):
        code, output = self.again(epochs=1).run()
        self.assertEqual(code, 1)
        self.assertIn("--epochs", output)

    def test_other_threads_are_told(self):
        output = self.ended(self.again(threads=2))
        self.assertIn("not be bit-equal", output)
        self.assertIn("compute threads", output)

    def test_threads_of_before_by_themselves(self):
        self.assertNotIn("not be bit-equal", self.ended(self.again(threads=None)))

    def test_never_begins_anew(self):
        straight = self.job("straight")
        self.ended(straight, "--resume", "never")
        self.ended(self.run_, "--resume", "never")
        self.assert_same(straight, self.run_)
        self.assertEqual(self.run_.events("resume"), [])

    def test_require(self):
        other = self.job("other", epochs=1)
        code, output = other.run("--resume", "require")
        self.assertEqual(code, 1)
        self.assertIn("--resume", output)
        self.ended(self.run_, "--resume", "require")

    def test_a_damaged_checkpoint_is_passed_over(self):
        newest = max(self.run_.folder.glob("checkpoints/checkpoint-*"))
        content = bytearray((newest / "state.safetensors").read_bytes())
        content[len(content) // 2] ^= 1
        (newest / "state.safetensors").write_bytes(content)
        straight = self.job("straight")
        self.ended(straight)
        self.assertIn(newest.name, self.ended(self.run_))
        self.assert_same(straight, self.run_)


class EndTest(ResumeTest):
    def test_a_finished_run_has_nothing_to_do(self):
        job = self.job("run", epochs=1)
        self.ended(job)
        before = (job.folder / "model/_meta.yaml").stat().st_mtime_ns
        self.assertIn("nothing to do", self.ended(job))
        self.assertEqual((job.folder / "model/_meta.yaml").stat().st_mtime_ns, before)

    def test_more_epochs_go_on(self):
        job = self.job("run", epochs=1)
        self.ended(job)
        self.ended(self.job("run", epochs=2))
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2])

    def test_a_model_that_could_not_be_written_is_written_by_the_same_command(self):
        straight, job = self.job("straight", epochs=1), self.job("run", epochs=1)
        self.ended(straight)
        self.ended(job)
        shutil.rmtree(job.folder / "model")
        self.ended(job)
        self.assert_same(straight, job)

    def test_the_checkpoints_kept(self):
        job = self.job("run", epochs=2)
        self.ended(job, "--keep-checkpoints", 3)
        self.assertEqual(job.num_checkpoints(), 3)
        shutil.rmtree(job.folder)
        self.ended(self.job("run", epochs=2), "--keep-checkpoints", 1)
        self.assertEqual(job.num_checkpoints(), 1)
        self.assertEqual(len(list(job.folder.glob("checkpoints/best-*"))), 1)
        told = json.loads(kiln("inspect", job.folder / "checkpoints", "--json").stdout)
        self.assertEqual((told["kind"], told["whole"], told["epochs_done"], told["finished"]),
                         ("Checkpoint", True, 2, "epochs"))

    def test_a_second_run_on_the_folder(self):
        job = self.job("run", epochs=1000)
        first = job.start()
        try:
            while not job.num_checkpoints():
                self.assertIsNone(first.poll())
            code, output = self.job("other", checkpoint_path=job.folder / "checkpoints", epochs=1000).run()
            self.assertEqual(code, 3, output)
        finally:
            first.kill()
            first.communicate()

    def test_other_ranks_keep_the_order_and_the_rate(self):
        """With synchronized BatchNorm the losses agree as well: at a low rate, where rounding is not magnified."""
        alone = self.job("alone", epochs=6, batch_size=16, image_size=64, sync_batch_norm=True, learning_rate=1e-6)
        self.ended(alone)
        moved = self.job("moved", epochs=6, batch_size=16, image_size=64, sync_batch_norm=True, learning_rate=1e-6)
        self.stopped(moved, 6, signal.SIGTERM)
        steps = len(moved.events("step"))
        output = self.ended(self.job("moved", epochs=6, batch_size=8, image_size=64, ranks=2, sync_batch_norm=True,
                                     learning_rate=1e-6))
        self.assertIn("number of ranks", output)
        pairs = list(zip(alone.events("step"), moved.events("step")))[steps:steps + 10]
        self.assertEqual(len(pairs), 10)
        for one, other in pairs:
            self.assertEqual(one["learning_rate"], other["learning_rate"])
            self.assertAlmostEqual(one["batch"]["loss_sum"] / 16, other["batch"]["loss_sum"] / 16, delta=1e-4)


if __name__ == "__main__":
    main()
