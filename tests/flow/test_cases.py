"""Reports of users of other trainers, and files from them, through the real program: each case is made here, and what is right is
compared. A class is a family of cases."""
import os
import shutil
import subprocess

from flow import KILN, FlowTest, kiln, main
from jobs import ENVIRONMENT


class Archives(FlowTest):
    """What lies in an archive or a shard is read as the folder that unpacking would give."""


class Listings(FlowTest):
    """What is listed, what is left out, and what an index may be trusted with."""


class Labels(FlowTest):
    """What labels mean is decided once, over all ranks, parts and both sets."""


class Pixels(FlowTest):
    """The same picture everywhere: orientation and depth."""


class Bitmaps(FlowTest):
    """Bitmaps have Pillow's pixels, the same ones every time; sizes fit in memory."""


class Weights(FlowTest):
    """Weights that other programs wrote."""


class Answers(FlowTest):
    """Reports speak of the model that was saved."""


class Nights(FlowTest):
    """Nothing is lost at the end of a run, and nothing outside can hold one."""


class Ranks(FlowTest):
    """Ranks, hosts and resumed runs work on the same bytes."""

    def copies(self, **folders):
        """A place for each of two ranks with a copy of each of `folders`, which the second may spoil."""
        places = [self.folder / "rank0", self.folder / "rank1"]
        for place in places:
            for name, source in folders.items():
                shutil.copytree(source, place / name)
        return places

    def refused(self, places, code, words, *sentences):
        """The command is started in both places, and refused before anything is trained or scored."""
        ranks = [["-np", 1, "-wdir", place, KILN, *words] for place in places]
        result = subprocess.run(["mpirun", "--oversubscribe", *map(str, [*ranks[0], ":", *ranks[1]])], capture_output=True,
                                text=True, env={**os.environ, **ENVIRONMENT}, timeout=100)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for sentence in sentences:
            self.assertRegex(result.stderr, sentence)
        self.assertNotIn("Epoch", result.stdout)
        if words[0] == "train":
            self.assertEqual(self.error_info()["ErrorCode"], code)

    def exchange_two_classes(self, folder):
        """Their files have the same names."""
        one, other = sorted(folder.iterdir())[:2]
        one.rename(folder / "x")
        other.rename(one)
        (folder / "x").rename(other)

    def test_ranks_train_one_model_on_the_same_contents(self):
        places = self.copies(model=self.untrained, train=self.data / "train")
        words = self.train_arguments(untrained_model_path="model", train_data_path="train", threads=1, loader_threads=1)
        self.exchange_two_classes(places[1] / "train")
        self.refused(places, 18, words, r"Training dataset differs between ranks: .* on rank 1 on host ")
        shutil.rmtree(places[1] / "model")
        self.assertEqual(kiln("init-model", "resnet34", "--untrained-model-path", places[1] / "model").returncode, 0)
        self.refused(places, 159, words, r"Ranks found different models in --untrained-model-path 'model': rank 1 on host \S+ "
                     r"found resnet34 \S+, rank 0 found resnet18 ")

    def test_ranks_score_with_one_model(self):
        self.assertEqual(self.train().returncode, 0)
        places = self.copies(model=self.folder / "model", images=self.data / "val")
        words = ["score", "--trained-model-path", "model", "--data-path", "images", "--output-path", self.folder / "scores.csv",
                 "--log-path", self.folder / "logs", "--threads", 1]
        labels = places[1] / "model/index_to_label.csv"
        labels.write_text(labels.read_text().replace("circle", "ring"))
        self.refused(places, 159, words, r"Ranks found different models in --trained-model-path 'model': rank 1 on host ")
        self.assertFalse((self.folder / "scores.csv").exists())

    def test_what_was_exchanged_before_a_run_is_resumed_is_named(self):
        train = self.copy_data()
        again = {"train_data_path": train, "checkpoint_path": self.folder / "checkpoints"}
        self.assertEqual(self.train(**again).returncode, 0)
        self.exchange_two_classes(train)
        result = self.train(**again, epochs=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = "32 training images do not have the bytes that this run read under the same name before: 'circle/0000.jpg', "
        self.assertIn(said, result.stdout + result.stderr)
        self.assertIn(said, (self.folder / "logs/metrics.jsonl").read_text())


if __name__ == "__main__":
    main()
