"""`--shard-by none` and `train`: each rank has been given its own images, as a platform does that divides them over hosts."""
import json
import os
import shutil
import subprocess

from flow import KILN, FlowTest, main
from jobs import ENVIRONMENT


class OwnPartsTest(FlowTest):
    def part(self, number, **counts):
        """Data of one rank: so many training images of each class, and one of each for validation."""
        folder = self.folder / f"part{number}"
        sources = {part: sorted((self.data / part).rglob("*.*")) for part in ("train", "val")}
        for part in ("train", "val"):
            for place, (label, count) in enumerate(counts.items()):
                (folder / part / label).mkdir(parents=True)
                for image in range(count if part == "train" else 1):
                    shutil.copy(sources[part][place * 4 % 12 + image % 4], folder / part / label / f"{image}.png")
        return folder

    def run_parts(self, *parts, **options):
        words = []
        for part in parts:
            words += ([":"] if words else []) + ["-np", "1", KILN, *self.train_arguments(
                **{"train_data_path": part / "train", "valid_data_path": part / "val", "shard_by": "none", "batch_size": 4,
                   **options})]
        return subprocess.run(["mpirun", "--oversubscribe", "--bind-to", "none", *map(str, words)], capture_output=True,
                              text=True, timeout=300, env={**os.environ, **ENVIRONMENT})

    def test_classes_are_joined_and_the_smallest_part_gives_the_steps(self):
        result = self.run_parts(self.part(0, cat=10, dog=12), self.part(1, dog=8, elk=9))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual((self.start_event()["num_epochs"], self.start_event()["steps_per_epoch"]), (1, 4))
        self.assertEqual(self.training()["data"]["classes"], ["cat", "dog", "elk"])
        self.assertEqual(self.training()["data"]["counts"], {"cat": {"train": 10, "valid": 1}, "dog": {"train": 20, "valid": 2},
                                                             "elk": {"train": 9, "valid": 1}})

    def test_ranks_with_the_same_folder_divide_it(self):
        models = []
        for how in ("none", "rank"):
            shutil.rmtree(self.folder / "model", ignore_errors=True)
            result = self.run_parts(self.data, self.data, shard_by=how, batch_size=12)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            models.append((self.folder / "model/model").read_bytes())
        self.assertTrue(models[0] == models[1], "the models differ")

    def test_validation_images_that_all_have_are_counted_once(self):
        parts = self.part(0, cat=10, dog=12), self.part(1, cat=8, dog=9)
        for part in parts:
            (part / "val/cat/bad.png").write_bytes(b"no image")
        result = self.run_parts(*parts, shard_by="train", max_bad_images=1)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        training = self.training()
        self.assertEqual(training["data"]["counts"], {"cat": {"train": 18, "valid": 2}, "dog": {"train": 21, "valid": 1}})
        self.assertEqual([fault["file"] for fault in training["image_faults"]], ["cat/bad.png"])
        epoch, = (event for event in map(json.loads, (self.folder / "logs/metrics.jsonl").read_text().splitlines())
                  if event["event"] == "epoch")
        self.assertEqual((epoch["train"]["images"], epoch["valid"]["images"]), (32, 2))
        (parts[1] / "val/dog/0.png").unlink()
        result = self.run_parts(*parts, shard_by="train", trained_model_path=self.folder / "other")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(self.error_info()["ErrorCode"], 18)

    def test_bad_images_are_counted_by_their_own_rank(self):
        parts = self.part(0, cat=8), self.part(1, cat=8)
        (parts[1] / "train/cat/3.png").write_bytes(b"no image")
        result = self.run_parts(*parts, max_bad_images=1, epochs=2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("bad training image 'cat/3.png'", (self.folder / "logs/70_driver_log_1.txt").read_text())
        result = self.run_parts(*parts, on_bad_image="fail", trained_model_path=self.folder / "other")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(str(parts[1]), result.stdout + result.stderr)

    def test_parts_that_do_not_fit_are_refused(self):
        result = self.run_parts(self.part(0, cat=8), self.part(1, dog=2))
        self.assert_fails(result, 1, 7)


if __name__ == "__main__":
    main()
