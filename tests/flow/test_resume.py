"""The same command again continues where a checkpoint left it, and the result is that of an undisturbed run."""
import json
import os
import pathlib
import shutil
import signal
import tempfile

from flow import FlowTest, kiln, main
from resumed_runs import Job, assert_nothing_to_do, assert_refused, differences


class ResumeTest(FlowTest):
    def job(self, name, data=None, **options):
        return Job(self.folder / name, self.untrained, data or self.data, **options)

    def ended(self, job, *more):
        code, output = job.run(*more)
        self.assertEqual(code, 0, output)
        return output

    def assert_same(self, straight, resumed):
        self.assertEqual(differences(straight, resumed), [])

    def assert_goes_on(self, stops, **options):
        """A run stopped like this, again and again, leaves what an undisturbed one leaves."""
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        only_kills = {with_signal for _, with_signal in stops} == {signal.SIGKILL}  # none of which writes a checkpoint
        for steps, with_signal in stops:
            resumed.stop_after(steps, with_signal, only_kills)
        self.ended(resumed)
        self.assert_same(straight, resumed)
        self.assertGreaterEqual(len(resumed.events("resume")), 1)
        self.assertEqual(straight.events("resume"), [])


class EqualTest(ResumeTest):
    """To the bit."""

    def test_augmentations_caches_threads(self):
        cases = (("none", "decoded", 1, [(2, signal.SIGTERM), (7, signal.SIGKILL)]), ("strong", "bytes", 2, [(5, signal.SIGINT)]))
        for augment, cache, threads, stops in cases:
            with self.subTest(augment=augment, cache=cache):
                for name in ("straight", "resumed"):
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                self.assert_goes_on(stops, augment=augment, cache=cache, loader_threads=threads)

    def test_mixed_precision_and_checkpoints_at_the_end_of_epochs_only(self):
        self.assert_goes_on([(6, signal.SIGKILL)], checkpoint_every="1epoch", precision="bf16", image_size=16)

    def test_accumulation(self):
        self.assert_goes_on([(3, signal.SIGKILL), (5, signal.SIGTERM)], accumulate=2, batch_size=6, checkpoint_every="1step",
                            num_warmup_steps=2, learning_rate=0.05)

    def test_balanced_sampling(self):
        """Also the passes over a class, which go on from one epoch to the next."""
        data = self.folder / "uneven"
        shutil.copytree(self.data, data)
        for image in sorted(sorted((data / "train").iterdir())[0].iterdir())[4:]:
            image.unlink()
        self.assert_goes_on([(2, signal.SIGTERM), (5, signal.SIGKILL)], data=data, sample="balanced",
                            augment="crop,flip,vflip,rotate90,color", best_by="macro-recall", epochs=3)

    def test_two_ranks_with_synchronized_batch_norm(self):
        """test_resume_kills.py has ranks with norms of their own."""
        self.assert_goes_on([(2, signal.SIGTERM), (6, signal.SIGKILL)], ranks=2, batch_size=6, augment="standard",
                            sync_batch_norm=True)

    def test_bad_images_before_and_after(self):
        data = self.folder / "spoiled"
        shutil.copytree(self.data, data)
        for part in ("train", "val"):
            for path in sorted((data / part).rglob("*.png"))[::7]:
                path.write_bytes(path.read_bytes()[:60])
        self.assert_goes_on([(1, signal.SIGKILL), (5, signal.SIGTERM)], data=data, max_bad_images="50%")

    def test_early_stopping(self):
        options = {"patience": 1, "learning_rate": 0.03, "epochs": 8, "batch_size": 24}
        self.assert_goes_on([(3, signal.SIGTERM)], **options)
        training = json.loads((self.folder / "resumed/model/training.json").read_text())
        self.assertEqual(training["stopped_early"], "patience")


class OtherCommandTest(ResumeTest):
    """Of a run that was stopped in its second epoch."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.runs = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        cls.addClassCleanup(shutil.rmtree, cls.runs)
        Job(cls.runs / "stopped/run", cls.untrained, cls.data).stop_after(5)
        cls.straight = Job(cls.runs / "straight", cls.untrained, cls.data)
        code, output = cls.straight.run()
        assert code == 0, output

    def setUp(self):
        super().setUp()
        shutil.copytree(self.runs / "stopped", self.folder, symlinks=True, dirs_exist_ok=True)
        self.run_ = self.job("run")

    def again(self, **options):
        return self.job("run", **options)

    def test_what_decides_the_result_must_stay(self):
        options = {"augment": "flip", "learning_rate": 0.5, "threads": 2, "loader_threads": 1}
        output = assert_refused(self, self.again(**options), "--augment", "--learning-rate")
        for word in ("--threads", "--loader-threads"):
            self.assertNotIn(word, output)

    def test_another_precision_is_refused(self):
        assert_refused(self, self.again(precision="bf16"), "--precision", "fp32", "bf16")

    def test_auto_that_chooses_the_same_goes_on(self):
        self.ended(self.again(precision="auto"))

    def test_other_data(self):
        (self.run_.folder / "data").unlink()
        shutil.copytree(self.data, self.run_.folder / "data")
        next((self.run_.folder / "data/train").rglob("*.png")).unlink()
        assert_refused(self, self.again(), "training data")

    def test_other_model(self):
        kiln("init-model", "resnet34", "--untrained-model-path", self.run_.folder / "other")
        assert_refused(self, self.again(untrained_model_path="other"), "model")

    def test_other_batch(self):
        assert_refused(self, self.again(batch_size=4), "images")

    def test_fewer_epochs_than_reached(self):
        assert_refused(self, self.again(epochs=1), "--epochs")

    def test_other_threads_are_told(self):
        output = self.ended(self.again(threads=2))
        self.assert_names(output, "bit-identical", "compute threads")

    def test_never_begins_anew(self):
        self.ended(self.run_, "--resume", "never")
        told = [line for line in differences(self.straight, self.run_)
                if "options.resume: " not in line and not line.startswith("metrics.jsonl: command: ")]
        self.assertEqual(told, [])
        self.assertEqual(self.run_.events("resume"), [])

    def test_require(self):
        """With the threads of before, which it takes by itself."""
        code, output = self.job("other", epochs=1).run("--resume", "require")
        self.assertEqual(code, 1)
        self.assertIn("--resume", output)
        self.assertNotIn("not be bit-identical", self.ended(self.again(threads=None), "--resume", "require"))

    def test_a_damaged_checkpoint_is_passed_over(self):
        newest = max(self.run_.folder.glob("checkpoints/checkpoint-*"))
        content = bytearray((newest / "state.safetensors").read_bytes())
        content[len(content) // 2] ^= 1
        (newest / "state.safetensors").write_bytes(content)
        self.assertIn(newest.name, self.ended(self.run_))
        self.assert_same(self.straight, self.run_)


class EndTest(ResumeTest):
    def test_a_model_that_could_not_be_written_is_written_by_the_same_command(self):
        """After the end, where else nothing is to be done; and more epochs go on."""
        job = self.job("run", epochs=1)
        self.ended(job)
        assert_nothing_to_do(self, job)
        shutil.copytree(job.folder, self.folder / "straight", symlinks=True)
        shutil.rmtree(job.folder / "model")
        self.ended(job)
        self.assert_same(self.job("straight"), job)
        self.ended(self.job("run"))
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2])

    def test_more_epochs_keep_the_warm_up_of_the_recipe(self):
        options = {"recipe": "modern", "precision": "fp32", "patience": None}
        self.ended(self.job("run", epochs=1, **options))
        job = self.job("run", epochs=2, **options)
        self.ended(job)
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2])
        self.assertEqual(json.loads((job.folder / "model/training.json").read_text())["options"]["num-warmup-steps"], "0.3")

    def test_a_run_killed_between_its_model_and_the_end_of_its_record(self):
        straight, killed = self.job("straight"), self.job("killed")
        for job in (straight, killed):
            self.ended(job)
        record = killed.folder / "logs/metrics.jsonl"
        lines = record.read_text().splitlines(keepends=True)
        self.assertEqual(json.loads(lines[-1])["event"], "end")
        record.write_text("".join(lines[:-1]))
        self.ended(killed)
        self.assert_same(straight, killed)
        self.assertEqual(len(killed.events("resume")), 1)
        self.ended(killed)
        self.assertEqual(len(killed.events("resume")), 1)

    def test_fewer_processors_take_fewer_threads(self):
        """Those of before are for the processors of another machine, which so few may not carry."""
        self.ended(self.job("run", epochs=1, threads=2))
        processors = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, processors)
        os.sched_setaffinity(0, {min(processors)})
        output = self.ended(self.job("run", threads=None))
        self.assert_names(output, "the number of compute threads was 2 and is now 1", ", 1 compute and ")

    def exchange_an_image(self, folder):
        sorted(folder.rglob("*.*"))[0].write_bytes(b"P6 40 40 255\n" + bytes(3 * 40 * 40))

    def test_images_of_another_size_do_not_change_that_of_the_run(self):
        """Resumed by two ranks, of which one looks at the images."""
        mirrored = self.folder / "transformation"
        made = kiln("transform", "init", "--output-path", mirrored, "--random-horizontal-flip", "True")
        self.assertEqual(made.returncode, 0, made.stderr)
        for name, told, options in (("auto", "224 x 224", {}), ("flip", "several sizes", {"transform_path": mirrored})):
            with self.subTest(name):
                data = self.folder / "data" / name
                shutil.copytree(self.data, data)
                self.ended(self.job(name, data=data, epochs=1, **options))
                self.exchange_an_image(data / "train")
                output = self.ended(self.job(name, data=data, ranks=2, batch_size=6, **options))
                self.assert_names(output, "32 x 32", told)
                kept = json.loads((self.folder / name / "model/preprocessing.json").read_text())
                self.assertEqual(kept["input_size"], [32, 32])

    def test_ranks_with_images_of_their_own_keep_the_size_of_the_run(self):
        for rank in "01":
            shutil.copytree(self.data / "train", self.folder / "run/parts" / rank)
        options = {"train_data_path": "parts/{rank}", "shard_by": "train", "ranks": 2, "batch_size": 6}
        self.ended(self.job("run", epochs=1, **options))
        self.exchange_an_image(self.folder / "run/parts/1")
        self.ended(self.job("run", **options))
        self.assert_names((self.folder / "run/logs/70_driver_log_1.txt").read_text(), "32 x 32", "224 x 224")

    def test_the_checkpoints_kept(self):
        job = self.job("run", batch_size=24, checkpoint_every="1step")
        self.ended(job)
        self.assertEqual(job.num_checkpoints(), 2)
        self.assertEqual(len(list(job.folder.glob("checkpoints/best-*"))), 1)
        told = json.loads(kiln("inspect", job.folder / "checkpoints", "--json").stdout)
        self.assertEqual((told["kind"], told["whole"], told["epochs_done"], told["finished"]),
                         ("Checkpoint", True, 2, "epochs"))

    def test_checkpoints_of_which_none_can_be_used_are_kept(self):
        """The weights of the best epoch are one file for both of them."""
        options = {"batch_size": 24, "checkpoint_every": "1step"}
        self.ended(self.job("run", **options))
        job = self.job("run", epochs=3, **options)
        [best] = job.folder.glob("checkpoints/best-*")
        whole = best.read_bytes()
        best.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        names = sorted(path.name for path in best.parent.iterdir())
        checkpoints = [name for name in names if name.startswith("checkpoint-")]
        self.assertEqual(len(checkpoints), 2)
        assert_refused(self, job, best.name, *checkpoints, "--resume never")
        self.assertEqual(sorted(path.name for path in best.parent.iterdir()), names)
        best.write_bytes(whole)
        self.ended(job)
        self.assertEqual([event["epoch"] for event in job.events("epoch")], [1, 2, 3])

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
        options = {"image_size": 64, "sync_batch_norm": True, "learning_rate": 1e-6}
        alone, moved = (self.job(name, batch_size=12, **options) for name in ("alone", "moved"))
        self.ended(alone)
        moved.stop_after(3)
        steps = len(moved.events("step"))
        self.assertLess(steps, 6)
        self.assertIn("number of ranks", self.ended(self.job("moved", batch_size=6, ranks=2, **options)))
        pairs = list(zip(alone.events("step"), moved.events("step")))[steps:]
        self.assertEqual(len(pairs), 8 - steps)
        for one, other in pairs:
            self.assertEqual(one["learning_rate"], other["learning_rate"])
            self.assertAlmostEqual(one["batch"]["loss_sum"] / 12, other["batch"]["loss_sum"] / 12, delta=1e-4)


if __name__ == "__main__":
    main()
