"""Classes of different sizes: what --class-weights, --sample and --best-by do to a run."""
import json

from flow import FlowTest, main


class BalanceTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.train_images = self.copy_data()
        counts = []
        for folder, kept in zip(sorted(self.train_images.iterdir()), (99, 5, 3)):
            images = sorted(folder.iterdir())
            for image in images[kept:]:
                image.unlink()
            counts.append(min(kept, len(images)))
        self.counts = counts

    def run_of(self, name, **options):
        """What training.json and metrics.jsonl say of a run, and its weights."""
        result = self.train(train_data_path=self.train_images, trained_model_path=self.folder / name / "model",
                            log_path=self.folder / name / "logs", batch_size=6, print_freq=1, learning_rate=.05, threads=1,
                            **options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        lines = (self.folder / name / "logs/metrics.jsonl").read_text().splitlines()
        model = self.folder / name / "model"
        return (json.loads((model / "training.json").read_text()), [json.loads(line) for line in lines],
                (model / "model.safetensors").read_bytes(), result.stdout)

    def test_weights_change_the_objective_and_not_the_reported_loss(self):
        _, plain, weights, said = self.run_of("plain")
        self.assertNotIn("class weights", said)
        _, balanced, changed, said = self.run_of("balanced", class_weights="balanced")
        self.assertNotEqual(changed, weights)
        all_images = sum(self.counts)
        least, most = (f"{all_images / (3 * count):.3g} (" for count in (max(self.counts), min(self.counts)))
        self.assertRegex(said, rf"class weights: +balanced, {least.replace('(', '[(]')}.*to {most.replace('(', '[(]')}")
        first = [next(event["batch"] for event in events if event["event"] == "step") for events in (plain, balanced)]
        self.assertEqual(first[0], first[1])

    def test_balanced_epochs_have_as_many_images_and_repeat_to_the_bit(self):
        options = {"sample": "balanced", "augment": "flip,vflip,rotate90,color", "epochs": 2}
        _, told, weights, _ = self.run_of("one", loader_threads=1, cache="none", **options)
        self.assertEqual(self.run_of("many", loader_threads=3, cache="decoded", **options)[2], weights)
        _, plain, other, _ = self.run_of("plain", **{**options, "sample": "shuffle"})
        images = [[event["train"]["images"] for event in events if event["event"] == "epoch"] for events in (told, plain)]
        self.assertEqual(images[0], images[1])
        self.assertNotEqual(other, weights)
        page = (self.folder / "plain/logs/report.html").read_text()
        self.assertEqual("--class-weights balanced</code>" in page, max(self.counts) >= 10 * min(self.counts))

    def test_the_kept_epoch_is_the_best_by_the_figure_asked_for(self):
        """test_train.py has top1, the default."""
        figures = {"loss": lambda epoch: -epoch["valid_loss"],
                   "macro-recall": lambda epoch: (epoch["macro_recall"], epoch["top1"], -epoch["valid_loss"])}
        for name, figure in figures.items():
            with self.subTest(best_by=name):
                training, told, _, _ = self.run_of(name, best_by=name, epochs=3, patience=9)
                best = max(training["epochs"], key=figure)["epoch"]
                self.assertEqual(training["saved_epoch"], best)
                kept = [event["judgement"]["epoch"] for event in told if "judgement" in event]
                self.assertEqual(kept[-1], best)

    def test_weights_may_be_given(self):
        names = sorted(folder.name for folder in self.train_images.iterdir())
        weights = [sum(self.counts) / (3 * count) for count in self.counts]
        listed = ",".join(f"{name}={weight!r}" for name, weight in zip(names, weights, strict=True))
        table = self.folder / "weights.csv"
        table.write_text("class,weight\n" + "".join(f"{name},{weight!r}\n" for name, weight in zip(names, weights, strict=True)))
        _, _, balanced, _ = self.run_of("balanced", class_weights="balanced")
        for name, value in (("list", listed), ("file", table)):
            _, _, model, said = self.run_of(name, class_weights=value)
            self.assertEqual(model, balanced, name)
            self.assertRegex(said, r"class weights: +given, ")
            self.assertIn(f"{names[0]}={weights[0]!r}"[:20], (self.folder / name / "logs/repeat.yaml").read_text())
        for value, said in ((f"{names[0]}=1,{names[1]}=1", f"'{names[2]}'"), (listed + ",wolf=2", "'wolf'")):
            result = self.train(train_data_path=self.train_images, class_weights=value)
            self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
            self.assert_names(result.stderr, "--class-weights", said)

    def test_options_that_contradict_each_other(self):
        self.assert_fails(self.train(sample="balanced", class_weights="sqrt"), 2, 2, "--class-weights", "use one of the two")


if __name__ == "__main__":
    main()
