"""The parts of a recipe in whole runs: they resume and repeat to the bit, are told in the first lines, and are refused where they
make no sense."""
import json

from flow import FlowTest, kiln, main
from resumed_runs import ENVIRONMENT, Job, differences


class RecipeTest(FlowTest):
    def job(self, name, **options):
        return Job(self.folder / name, self.untrained, self.data, **options)

    def ended(self, job):
        code, output = job.run()
        self.assertEqual(code, 0, output)
        return output

    def weights(self, job):
        return (job.folder / "model/model").read_bytes()


class ResumeTest(RecipeTest):
    def assert_goes_on(self, **options):
        straight, resumed = self.job("straight", **options), self.job("resumed", **options)
        self.ended(straight)
        resumed.stop_after(5)
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])

    def test_averages_mixing_and_adamw(self):
        self.assert_goes_on(optimizer="adamw", ema=0.9, clip_norm=1, mixup=0.4, cutmix=1, label_smoothing=0.1,
                            lr_schedule="cosine", augment="flip")

    def test_modern_with_two_ranks(self):
        """Each rank has averages of BatchNorm's statistics of its own within an epoch."""
        self.assert_goes_on(recipe="modern", ranks=2, batch_size=6, checkpoint_every="1step")

    def test_another_recipe_is_refused(self):
        first = self.job("run", ema=0.9)
        first.stop_after(2)
        code, output = self.job("run", ema=0.99, optimizer="adamw").run()
        self.assertEqual(code, 1)
        self.assert_names(output, "--ema", "0.99", "--optimizer", "adamw")


class ModernTest(RecipeTest):
    def test_its_parts_are_told_and_the_file_that_repeats_it_names_them(self):
        job = self.job("run", recipe="modern", mixup=0, checkpoint_path=None, checkpoint_every=None)
        output = self.ended(job)
        line = next(line for line in output.splitlines() if "recipe: " in line)
        self.assert_names(line, "modern:", "--learning-rate 0.0036", "--lr-schedule cosine", "--ema 0 ",
                          "--mixup 0 ", "--precision auto")
        text = (job.folder / "logs/repeat.yaml").read_text()
        self.assertNotIn("\nrecipe:", text)
        self.assertIn("\nlr-schedule: cosine\n", text)
        words = ["train", "--config", "logs/repeat.yaml", "--trained-model-path", "model2", "--log-path", "logs2"]
        again = kiln(*words, cwd=job.folder, environment=ENVIRONMENT)
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertEqual((job.folder / "model2/model").read_bytes(), self.weights(job))

    def test_each_part_changes_the_weights_but_the_designers_changes_nothing(self):
        plain = self.job("plain", epochs=1)
        self.assertNotIn("recipe: ", self.ended(plain))
        named = self.job("named", epochs=1, recipe="designer", optimizer="sgd", momentum=0.9, weight_decay=1e-4, no_decay="none",
                         clip_norm=0, ema=0, mixup=0, class_weights="none", sample="shuffle", best_by="top1")
        self.ended(named)
        seen = {self.weights(plain)}
        self.assertIn(self.weights(named), seen)
        parts = ({"optimizer": "adamw"}, {"no_decay": "norm-and-bias"}, {"clip_norm": 0.01}, {"ema": 0.9}, {"mixup": 1},
                 {"label_smoothing": 0.1}, {"lr_schedule": "cosine"})
        for number, part in enumerate(parts):
            with self.subTest(part=part):
                job = self.job(f"part-{number}", epochs=1, **part)
                self.ended(job)
                self.assertNotIn(self.weights(job), seen)
                seen.add(self.weights(job))

    def test_mixing_and_smoothing_leave_the_reported_validation_alone(self):
        job = self.job("run", mixup=0.4, label_smoothing=0.2, image_size=64, eval_crop="larger")
        output = self.ended(job)
        self.assertRegex(output, r"image size: +64x64 \(--image-size")
        self.assertRegex(output, r"validation size: +96x96")
        again = kiln("evaluate", "--trained-model-path", job.folder / "model", "--data-path", self.data / "val", "--output-path",
                     self.folder / "page")
        self.assertEqual(again.returncode, 0, again.stderr)
        judged = json.loads((self.folder / "page/evaluation.json").read_text())["models"][0]
        training = json.loads((job.folder / "model/training.json").read_text())
        kept = next(epoch for epoch in training["epochs"] if epoch["epoch"] == training["saved_epoch"])
        self.assertAlmostEqual(judged["top1"], kept["top1"])


class BadInputTest(FlowTest):
    def test_options_against_reason(self):
        cases = (({"mixup": 0.2, "batch_size": 1}, "in pairs, but --batch-size is 1"),
                 ({"lr_schedule": "cosine", "time_limit": "1min", "epochs": None}, "use --lr-schedule polynomial"))
        for options, words in cases:
            with self.subTest(options=options):
                self.assert_fails(self.train(**options), 2, 2, words)
                self.assertEqual(len(self.error_info()["Message"].splitlines()), 1)

    def test_a_head_that_is_fitted_to_features_has_no_epochs(self):
        result = self.train(freeze="backbone", mixup=0.2)
        self.assert_refused(result, 1, "--mixup")
        self.assertFalse((self.folder / "model/_meta.yaml").exists())


if __name__ == "__main__":
    main()
