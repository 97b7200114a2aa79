"""Every command that computes, and every option of the training and of the recipe, once with --device cuda on the stand-in
device, which refuses a tensor of the CPU among those of the device, as CUDA does."""
import csv
import os
import re

from stand_in import FOLDER, GpuTest, kiln, main
from flow import KILN, start_until
from serving import Server

# Runs of `kiln train`. FOLDER is the test's.
RUNS = {
    "adamw": "--optimizer adamw --lr-schedule cosine --ema 0.9 --clip-norm 1 --label-smoothing 0.1 "
             "--precision bf16",
    "mixup": "--mixup 0.2 --cutmix 1 --accumulate 2 --precision fp16 --no-decay norm-and-bias --momentum 0.8",
    "sgd": "--optimizer sgd --class-weights balanced --cutmix 1 --precision tf32 --num-warmup-steps 1 --weight-decay 0.1",
    "modern": "--recipe modern --sample balanced --epochs 2 --patience 1",
    "norm": "--freeze norm --head-learning-rate 0.1 --deterministic --explain FOLDER/explained --learning-rate 0.01",
    "decay": "--layer-decay 0.75 --freeze stage1 --model-name convnext_tiny --image-size 32",
    "backbone": "--freeze backbone --folds 2 --random-seed 5",
    "auto": "--auto True --epochs 2 --model-name resnet18 --weights FOLDER/adamw/model.safetensors",
    "ranks": "--ranks 2 --sync-batch-norm --precision bf16 --lr-scaling sqrt",
    "averages": "--ranks 2 --accumulate 2 --ema 0.9 --clip-norm 1 --mixup 0.2 --save last --steps 2",
}
BY_NIGHT = ("mixup", "sgd", "modern", "ranks")  # only with KILN_NIGHTLY=1
ON_THE_HOST = {"--steps-per-epoch", "--time-limit", "--batch-size"}  # the first two decide when an epoch or the run ends


def options_of_groups(*groups):
    """The options in these groups of `kiln train --help all`."""
    found, group = set(), ""
    for line in kiln("train", "--help", "all").stdout.splitlines():
        group = line.rstrip(":") if re.fullmatch(r"[A-Z][\w ]+:", line) else group
        if group in groups and (match := re.match(r"  (--[a-z0-9-]+)\b", line)):
            found.add(match[1])
    return found


class CommandsTest(GpuTest):
    def words(self, words, **options):
        untrained = None if "--model-name" in words else self.untrained
        epochs = None if "--epochs" in words or "--steps" in words else 1
        return [*self.train_arguments(batch_size=8, epochs=epochs, threads=1, untrained_model_path=untrained, **options),
                *words.replace("FOLDER", str(self.folder)).split()]

    def train(self, words, **options):
        self.run_kiln(*self.words(words, **options), copy_us=0, sum_us=0)

    def test_every_option_is_in_a_run(self):
        words = {word for run in RUNS.values() for word in run.split()}
        options = options_of_groups("Training", "Recipe")
        self.assertGreater(len(options), 25)
        self.assertEqual(options - words - ON_THE_HOST, set())

    def test_training(self):
        for name, words in RUNS.items():
            with self.subTest(name):
                if name in BY_NIGHT and os.environ.get("KILN_NIGHTLY") != "1":
                    self.skipTest("only with KILN_NIGHTLY=1")
                self.train(words, trained_model_path=self.folder / name, log_path=self.folder / f"logs-{name}")

    def test_a_run_resumes(self):
        words = self.words("--checkpoint-path FOLDER/checkpoints --ema 0.9 --precision fp16 --epochs 6 --patience 9")
        job = start_until(self, "Epoch 1,", [KILN, *words])
        job.terminate()
        self.assertEqual(job.wait(60), 143)
        self.run_kiln(*words)

    def test_what_a_model_is_used_for(self):
        self.train("--model-name densenet121")
        model = ["--trained-model-path", self.folder / "model", "--device", "cuda", "--batch-size", 4]
        images = ["--data-path", self.data / "val"]
        self.run_kiln("score", *model, *images, "--output-path", self.folder / "one.csv", "--explain", self.folder / "maps")
        for part in (1, 2):
            self.run_kiln("score", *model, *images, "--output-path", self.folder / "two.csv", "--part", f"{part}/2")
        two = "".join((self.folder / f"two.part-{part}-of-2.csv").read_text() for part in (1, 2))
        self.assertEqual(two, (self.folder / "one.csv").read_text())
        rows = list(csv.DictReader(two.splitlines()))
        photo = next(path for path in sorted((self.data / "val").rglob("*")) if path.is_file())
        server = Server(self, *model[:2], device="cuda")
        for path in ("/predict", "/explain"):
            row = server.json("POST", path, photo.read_bytes())[1]
            self.assertEqual([row["label"], row["fault"]], [rows[0]["label"], None], path)
            self.assertAlmostEqual(row["confidence"], float(rows[0]["confidence"]), places=5)
        self.run_kiln("evaluate", *model, *images, "--output-path", self.folder / "evaluation")
        self.run_kiln("audit", *model, "--data-path", self.data / "train", "--output-path", self.folder / "audit")

    def test_measuring(self):
        self.run_kiln("collective", "--device", "cuda", sum_us=0,
                      program=("mpirun", "--oversubscribe", "-np", 2, FOLDER / "kiln_bench"))


if __name__ == "__main__":
    main()
