"""Many ranks train one model: started by mpirun and by `kiln launch`, equal to one process with the joined batch."""
import array
import json
import operator
import os
import pathlib
import re
import shutil
import struct
import sys

from flow import main
from jobs import LAUNCH, MPIRUN, JobTest

sys.path.append(os.environ.get("KILN_PARITY_PACKAGES") or str(pathlib.Path(__file__).parents[2] / ".deps/parity"))
try:
    import numpy
except ImportError:  # without it the same takes longer
    numpy = None

STAMP = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} kiln"


def read_weights(folder):
    """All numbers of model.safetensors by name: arrays of float, or of 64-bit integers."""
    data = (folder / "model/model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    weights = {}
    for name, tensor in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        kind = {"F32": "f", "I64": "q"}[tensor["dtype"]]
        values = data[8 + length + begin:8 + length + end]
        weights[name] = numpy.frombuffer(values, kind) if numpy else array.array(kind, values)
    return weights


def largest_difference(one, other, names):
    assert one.keys() == other.keys()
    if numpy:
        return max(float(numpy.abs(one[name] - other[name]).max()) for name in names)
    return max(max(map(abs, map(operator.sub, one[name], other[name]))) for name in names)


class RunTest(JobTest):
    def assert_story(self, job, ranks):
        """What every rank's own log says."""
        for rank in range(ranks):
            lines = job.log(rank).splitlines()
            whose = STAMP + (f" rank {rank} " if rank else " ")
            for line in lines:
                self.assertRegex(line, whose)
            self.assert_names(job.log(rank), "48 images", "12 images", "CPU")
        phases = ("starting", "reading the data", "training, epoch 1", "evaluating, epoch 1", "saving")
        self.assert_names(job.log(1), *("phase: " + phase for phase in phases))
        self.assertRegex(job.log(0), re.compile(STAMP + r".* Epoch: \[1/2\]\tIter: \[1/2\]", re.M))

    def test_mpirun_and_launch_write_a_model_and_logs(self):
        for how in (MPIRUN, LAUNCH):
            with self.subTest(how=how):
                self.new_folder()
                job = self.finish(how, epochs=2, batch_size=12)
                self.assert_whole_model()
                self.assert_story(job, 2)
                self.assertIsNone(self.error_info())
                start = self.start_event()
                self.assertEqual((start["num_ranks"], start["steps_per_epoch"], start["global_batch"]), (2, 2, 24))
                self.assertEqual(job.output.count("\n  saved epoch"), 1)

    def test_same_seed_and_ranks_give_the_same_bits(self):
        outcomes = []
        for _ in range(2):
            self.new_folder()
            self.finish(MPIRUN, epochs=2, lr_scaling="sqrt")
            self.assert_scaled(2 ** 0.5)
            losses = [(epoch["train_loss"], epoch["valid_loss"]) for epoch in self.training()["epochs"]]
            outcomes.append((losses, (self.folder / "model/model.safetensors").read_bytes(),
                             (self.folder / "model/model").read_bytes()))
        self.assertTrue(outcomes[0] == outcomes[1], "the second run has other bits")

    def test_one_rank_of_mpirun_gives_the_bits_of_a_process_without_mpi(self):
        self.train(epochs=1, threads=1)
        expected = (self.folder / "model/model.safetensors").read_bytes()
        # glibc fills freed memory, so that what lies behind the only rank's part is not 0 by chance
        filled = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        for how in (MPIRUN, LAUNCH):
            with self.subTest(how=how):
                self.new_folder()
                job = self.start_words(self.words(how, 1, epochs=1), filled)
                self.assertEqual(job.end(), 0, job.output)
                self.assertTrue((self.folder / "model/model.safetensors").read_bytes() == expected, "other bits")

    def test_fewer_validation_images_than_ranks(self):
        valid = self.copy_data("val")
        for path in sorted(valid.rglob("*.png"))[1:]:
            path.unlink()
        self.finish(MPIRUN, ranks=2, valid_data_path=valid)
        self.assertLessEqual(self.training()["epochs"][0]["top1"], 1)

    def assert_scaled(self, factor):
        self.assertAlmostEqual(self.training()["epochs"][0]["learning_rate"], 0.001 * factor, places=7)

    def test_learning_rate_scaling(self):
        """Linear is the default; that and sqrt are looked at above."""
        for scaling, factor in (("linear", 2), ("none", 1), (2.5, 2.5)):
            with self.subTest(scaling=scaling):
                self.at_night_unless(False)
                self.new_folder()
                self.finish(MPIRUN, lr_scaling=scaling)
                self.assert_scaled(factor)


class EqualityTest(JobTest):
    """One process of batch 16, 2 ranks of 8 and 4 ranks of 4 see the same images in every step."""

    def outcome(self, ranks, global_batch, **options):
        self.new_folder()
        options = {"patience": 100, "save": "last", "batch_size": global_batch // ranks, "lr_scaling": "none",
                   "sync_batch_norm": True, **options}
        if ranks == 1:
            result = self.train(**{"threads": 1, **options})
            self.assertEqual(result.returncode, 0, result.stderr)
        else:
            self.finish(MPIRUN, ranks, **options)
        return read_weights(self.folder), self.training()["epochs"], (self.folder / "model/seen_images.bin").read_bytes()

    def assert_equal(self, who, one, other, losses, weights, statistics):
        """Within these bounds; says what the differences are."""
        loss = max(abs(a[key] - b[key]) for a, b in zip(one[1], other[1]) for key in ("train_loss", "valid_loss"))
        averaged = [name for name in one[0] if ".running_" in name]
        learned = [name for name in one[0] if name not in averaged]
        weight, statistic = (largest_difference(one[0], other[0], names) for names in (learned, averaged))
        print(f"{who}: losses differ by {loss:.1e}, weights by {weight:.1e}, BatchNorm's averages by {statistic:.1e}")
        self.assertEqual(one[2], other[2], "they do not say the same of the images that they have seen")
        self.assertLess(loss, losses)
        self.assertLess(weight, weights)
        self.assertLess(statistic, statistics)

    def test_one_step(self):
        one = self.outcome(1, 48, epochs=1)
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.at_night_unless(ranks == 4)
                self.assert_equal(f"{ranks} ranks, 1 step", one, self.outcome(ranks, 48, epochs=1), 1e-5, 1e-5, 1e-5)

    def test_one_step_of_augmented_images(self):
        """What is drawn for an image depends on the image, not on the rank that loads it."""
        options = {"epochs": 1, "augment": "strong", "image_size": 40}
        one, two = (self.outcome(ranks, 48, **options) for ranks in (1, 2))
        self.assert_equal("2 ranks, 1 step, augmented", one, two, 1e-4, 1e-4, 1e-5)  # rounding: 2e-5 and 1e-5 seen

    def test_several_epochs(self):
        """With a small learning rate: BatchNorm over few pixels makes any difference grow at every step, so that one
        process with another number of threads is as far away, which is said at night."""
        bounds = {"losses": 2e-4, "weights": 5e-6, "statistics": 1e-3}
        for ranks, epochs in ((2, 2), (1, 7), (2, 7), (4, 7)):
            with self.subTest(ranks=ranks, epochs=epochs):
                self.at_night_unless(epochs == 2)
                options = {"epochs": epochs, "learning_rate": 1e-6}
                one = self.outcome(1, 16, **options)
                other = self.outcome(ranks, 16, threads=2 if ranks == 1 else 1, **options)
                self.assert_equal(f"{ranks} ranks, {3 * epochs} steps", one, other, **bounds)

    def test_one_step_of_a_recipe(self):
        """Images are mixed by their places in the global batch, and the norm is that of the sum of all gradients."""
        recipe = {"epochs": 1, "mixup": 0.4, "cutmix": 1, "label_smoothing": 0.1, "clip_norm": 1, "ema": 0.9,
                  "no_decay": "norm-and-bias"}
        self.assert_equal("2 ranks, 1 step of a recipe", self.outcome(1, 48, **recipe), self.outcome(2, 48, **recipe),
                          1e-5, 1e-5, 1e-5)

    def test_accumulation(self):
        self.finish(MPIRUN, batch_size=12, accumulate=2, epochs=2, sync_batch_norm=True)
        self.assertEqual((self.start_event()["steps_per_epoch"], self.start_event()["global_batch"]), (1, 48))
        self.assertEqual(len(self.training()["epochs"]), 2)


class BadImageTest(JobTest):
    def spoil(self, count):
        """Training data whose first `count` images of every class are no images; their names."""
        train = self.copy_data()
        bad = [path for folder in sorted(train.iterdir()) for path in sorted(folder.iterdir())[:count]]
        for path in bad:
            path.write_bytes(b"no image")
        return train, bad

    def test_one_is_named_once_and_counted_once(self):
        for how in (MPIRUN, LAUNCH):
            with self.subTest(how=how):
                self.at_night_unless(how == LAUNCH)
                self.new_folder()
                train, bad = self.spoil(1)
                for path in bad[1:]:
                    path.unlink()
                job = self.finish(how, train_data_path=train, epochs=3, max_bad_images=1, batch_size=12)
                self.assertEqual(job.output.count(bad[0].name + "': "), 1, job.output)
                faults = self.training()["image_faults"]
                self.assertEqual([fault["file"] for fault in faults], [str(bad[0].relative_to(train))])
                self.assertEqual(len(self.training()["epochs"]), 3)

    def test_a_batch_that_one_rank_passes_over_leaves_the_models_equal(self):
        """Of 32 pixels the last map is 1x1: a batch of 2 with a bad image is left out by its rank, and by no other."""
        train, bad = self.spoil(1)
        for folder in train.iterdir():
            for path in sorted(folder.iterdir())[4:]:
                path.unlink()
        for path in bad[1:]:
            path.unlink()
        for number, path in enumerate(sorted(train.rglob("*.png"))[-2:]):  # 12 images again: none is dropped
            shutil.copy(path, path.with_name(f"copy_{number}.png"))
        self.finish(MPIRUN, train_data_path=train, max_bad_images=1, batch_size=2)
        self.assertEqual([fault["file"] for fault in self.training()["image_faults"]], [str(bad[0].relative_to(train))])
        counts = [values[0] for name, values in read_weights(self.folder).items() if name.endswith("num_batches_tracked")]
        self.assertEqual(set(counts), {3})

    def test_more_than_allowed(self):
        for how in (MPIRUN, LAUNCH):
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder()
                train, bad = self.spoil(2)
                job = self.start(how, train_data_path=train, epochs=3, max_bad_images=1)
                self.assertEqual(job.end(), 1, job.output)
                self.assert_nothing_left(job)
                self.assertEqual(self.error_info()["ErrorCode"], 18)
                self.assertIn("--max-bad-images allows 1", self.error_info()["Message"])
                told = [line for line in job.output.splitlines()
                        if "error: Training dataset" in line and "mpirun" not in line and "|" not in line]
                self.assertEqual(len(told), 1, job.output)
                self.assert_names(told[0], *(path.relative_to(train) for path in bad), f"{len(bad)} of 48 images")
                self.assertFalse((self.folder / "model/_meta.yaml").exists())


if __name__ == "__main__":
    main()
