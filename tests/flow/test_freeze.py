"""A network that is trained only in part: its head on features, in epochs, and with a rate of its own."""
import json
import random
import shutil

from flow import FlowTest, files_below, kiln, main, seen_images
from resumed_runs import Job, assert_refused, differences


class FreezeTest(FlowTest):
    def job(self, name, **options):
        if "checkpoint_path" not in options:
            options |= {"checkpoint_path": None, "checkpoint_every": None}
        return Job(self.folder / name, self.untrained, self.data, **{"freeze": "backbone", **options})

    def ended(self, job):
        code, output = job.run()
        self.assertEqual(code, 0, output)
        return output


class FeaturesTest(FreezeTest):
    def test_the_head_is_fitted_and_everything_is_reported(self):
        job = self.job("run", log_path="logs")
        output = self.ended(job)
        self.assertRegex(output, r"features: +\d+ images x 512 in .* with a penalty of ")
        (epoch,) = job.events("epoch")
        self.assertGreaterEqual(epoch["train"]["top1"] / epoch["train"]["images"], 0.6)  # features of random weights
        self.assertEqual(epoch["train"]["images"], len(files_below(self.data / "train")))
        self.assertLessEqual(sum(epoch["seconds"].values()), epoch["train_seconds"])  # without those of validation
        for name in ("report.html", "epochs.csv"):
            self.assertTrue((job.folder / "logs" / name).exists(), name)
        train, valid = seen_images(job.folder / "model")
        self.assertEqual(len(train | valid), len(files_below(self.data)))
        evaluated = kiln("evaluate", "--trained-model-path", job.folder / "model", "--data-path", self.data / "val", "--device", "cpu",
                         "--output-path", self.folder / "evaluation")
        self.assertEqual(evaluated.returncode, 0, evaluated.stderr)
        share = epoch["valid"]["top1"] / epoch["valid"]["images"]
        self.assertIn(f"{100 * share:.2f} %", evaluated.stdout)

    def test_options_of_epochs_are_said_to_have_no_effect(self):
        unused = {"epochs": 7, "patience": 1, "learning_rate": 0.1, "head_learning_rate": 0.1, "momentum": 0.5, "weight_decay": 0.1,
                  "no_decay": "norm-and-bias", "lr_schedule": "cosine", "num_warmup_steps": 2, "lr_scaling": "sqrt", "accumulate": 2}
        for options in (unused, {"steps": 3, "epochs": 5, "momentum": 0.9, "patience": None}):
            output = self.ended(self.job(f"run{len(options)}", **options))
            lines = [line for line in output.splitlines() if "no effect" in line]
            self.assertEqual(len(lines), 1, output)
            named = {word.strip(",").replace("-", "_")[2:] for word in lines[0].split(" ha")[0].split() if word.startswith("--")}
            self.assertEqual(named, set(unused) if options is unused else {"steps"})
        output = self.ended(self.job("usual", epochs=5, patience=None))
        self.assertEqual([line for line in output.splitlines() if "no effect" in line], [])

    def test_it_is_the_same_each_time(self):
        jobs = [self.job("one"), self.job("two")]
        for job in jobs:
            self.ended(job)
        self.assertEqual(*[(job.folder / "model/model").read_bytes() for job in jobs])

    def test_folds(self):
        job = self.job("run", folds=5)
        output = self.ended(job)
        self.assertRegex(output, r"out of fold +\d+\.\d % \(95 % interval .* of \d+ training images, in 5 folds")
        self.assertIn("5-fold cross-validation", (job.folder / "logs/report.html").read_text())

    def test_groups_stay_in_one_fold_where_the_sides_are_given(self):
        """With labels that are drawn by group, heads that have seen none of an image's group can only guess."""
        photos = self.folder / "photos"
        photos.mkdir()
        rows, labels = [], [group % 2 for group in range(20)]
        random.Random(4).shuffle(labels)
        for group, label in enumerate(labels):
            look = random.Random(group).randbytes(3 * 32 * 32)
            for number in range(6):
                noise = random.Random(100 * group + number)
                (photos / f"{group}_{number}.ppm").write_bytes(
                    b"P6 32 32 255\n" + bytes(min(255, value + noise.randrange(30)) for value in look))
                rows.append((f"{group}_{number}.ppm", f"class{label}", f"g{group}", "valid" if group >= 16 else "train"))

        def listed(name, columns, wanted=("train", "valid")):
            lines = [",".join(columns)] + [",".join(dict(zip(("path", "label", "group", "split", "set"), (*row, row[3]), strict=True))[c]
                                                    for c in columns) for row in rows if row[3] in wanted]
            (photos / name).write_text("\n".join(lines) + "\n")
            return photos / name

        with_groups = ("path", "label", "group")
        paths = {"train_data_path": None, "valid_data_path": None}
        for name, options in (
                ("two", {"train_data_path": listed("train.csv", with_groups, ("train",)),
                         "valid_data_path": listed("valid.csv", with_groups, ("valid",))}),
                ("column", {**paths, "data_path": listed("all.csv", (*with_groups, "split"))}),
                ("file", {**paths, "data_path": listed("plain.csv", ("path", "label")),
                          "split": listed("split.csv", ("path", "set", "group"))})):
            with self.subTest(name):
                job = self.job(name, folds=4, **options)
                self.ended(job)
                totals = json.loads((job.folder / "model/training.json").read_text())["out_of_fold"]["totals"]
                self.assertEqual(totals["images"], 96)
                self.assertLess(totals["top1"] / totals["images"], 0.75)

    def test_two_ranks_have_the_model_of_one(self):
        one, two = self.job("one"), self.job("two", ranks=2)
        self.ended(one)
        self.ended(two)
        epochs = [job.events("epoch")[0] for job in (one, two)]
        for part in ("train", "valid"):
            self.assertEqual(epochs[0][part]["images"], epochs[1][part]["images"])
            self.assertAlmostEqual(epochs[0][part]["loss_sum"], epochs[1][part]["loss_sum"],
                                   delta=0.01 * epochs[0][part]["images"])
        self.assertEqual(*[seen_images(job.folder / "model") for job in (one, two)])

    def test_bad_images_are_left_out(self):
        data = self.folder / "spoiled"
        shutil.copytree(self.data, data)
        for part in ("train", "val"):
            path = sorted((data / part).rglob("*.png"))[0]
            path.write_bytes(path.read_bytes()[:60])
        job = Job(self.folder / "run", self.untrained, data, freeze="backbone", checkpoint_path=None,
                  checkpoint_every=None, max_bad_images="20%")
        self.ended(job)
        (epoch,) = job.events("epoch")
        self.assertEqual((epoch["bad_train_images"], epoch["bad_valid_images"]), (1, 1))


class EpochsTest(FreezeTest):
    """With augmentation the head learns in epochs."""

    def test_a_frozen_backbone_resumes_to_the_bit(self):
        options = {"augment": "flip", "head_learning_rate": 0.02, "checkpoint_path": "checkpoints"}
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        resumed.stop_after(5)
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])

    def test_what_is_frozen_is_that_of_the_start(self):
        one, other = self.job("one", augment="flip"), self.job("other")
        self.ended(one)
        self.ended(other)
        weights = [(job.folder / "model/model").read_bytes() for job in (one, other)]
        self.assertNotEqual(*weights)
        self.assertEqual(*map(len, weights))
        # All but the head is the same.
        blocks = [[file[at:at + 65536] for at in range(0, len(file), 65536)] for file in weights]
        self.assertLessEqual(sum(a != b for a, b in zip(*blocks)), 8)

    def test_stages_are_frozen_up_to_there(self):
        backbone, all_stages, first = (self.job(name, augment="flip", freeze=name) for name in ("backbone", "stage4", "stage1"))
        outputs = [self.ended(job) for job in (backbone, all_stages, first)]
        for output, part in zip(outputs, ("the backbone", "up to stage4", "up to stage1"), strict=True):
            self.assertRegex(output, rf"frozen: +{part}; [\d,]+ of [\d,]+ parameters are trained")
        weights = [(job.folder / "model/model").read_bytes() for job in (backbone, all_stages, first)]
        self.assertEqual(weights[0], weights[1])
        same = [weights[0][at:at + 65536] == weights[2][at:at + 65536] for at in range(0, len(weights[0]), 65536)]
        self.assertGreater(sum(same), 5)  # of the stem and layer1, 0.6 MB
        self.assertLess(sum(same), 12)

    def test_stages_resume_to_the_bit_and_only_as_they_were(self):
        options = {"freeze": "stage2", "checkpoint_path": "checkpoints"}
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        resumed.stop_after(5)
        assert_refused(self, self.job("resumed", **{**options, "freeze": "stage3"}), "--freeze")
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])

    def test_layer_decay(self):
        options = {"freeze": None, "untrained_model_path": None, "model_name": "vit_s_16", "epochs": 1}
        weights = {}
        for decay in (None, 1, 0.5):
            job = self.job(f"run{decay}", layer_decay=decay, **options)
            self.ended(job)
            weights[decay] = (job.folder / "model/model").read_bytes()
        self.assertEqual(weights[None], weights[1])
        self.assertNotEqual(weights[1], weights[0.5])

    def test_frozen_norms_train(self):
        output = self.ended(self.job("run", freeze="norm", epochs=1))
        self.assertRegex(output, r"frozen: +the norms; [\d,]+ of [\d,]+ parameters are trained")


class RefusalTest(FreezeTest):
    def test_options_that_do_not_go_together(self):
        for options, expected in (({"freeze": "none", "folds": 5}, "--freeze backbone and --augment none"),
                                  ({"folds": 5, "augment": "flip"}, "--freeze backbone and --augment none"),
                                  ({"folds": 1}, "--folds is 1"),
                                  ({"sync_batch_norm": True}, "--sync-batch-norm has nothing to synchronize")):
            with self.subTest(**options):
                assert_refused(self, self.job("run", **options), expected, exit_code=2)

    def test_what_the_network_does_not_have(self):
        assert_refused(self, self.job("run", freeze="stage5"), "--freeze is stage5", "stage1 to stage4")
        assert_refused(self, self.job("run", freeze=None, layer_decay=0.75), "--layer-decay", "resnet18")


if __name__ == "__main__":
    main()
