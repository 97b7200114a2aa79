"""Reports of users of other trainers, and files from them, through the real program: several ranks."""
import os
import shutil
import subprocess

from flow import KILN, FlowTest, kiln, main
from forms import tar_of
from jobs import ENVIRONMENT


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
        """The command is started in both places, and refused before anything is trained."""
        ranks = [["-np", 1, "-wdir", place, KILN, *words] for place in places]
        result = subprocess.run(["mpirun", "--oversubscribe", *map(str, [*ranks[0], ":", *ranks[1]])], capture_output=True,
                                text=True, env={**os.environ, **ENVIRONMENT}, timeout=100)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        for sentence in sentences:
            self.assertRegex(result.stderr, sentence)
        self.assertNotIn("Epoch", result.stdout)
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

    def train_on_streams(self, *streams):
        """One rank on each of so many hosts, of which each has its own stream; its files are made while it is read."""
        words = []
        for number, stream in enumerate(streams):
            place = self.folder / f"host{number}"
            place.mkdir(exist_ok=True)
            (place / "train_0.tar").write_bytes(stream)
            apart = ["unshare", "--uts", "sh", "-c", f'hostname host{number}; exec "$@"', "sh"]
            train = self.train_arguments(train_data_path="train_{epoch}.tar", shard_by="host", batch_size=4, steps_per_epoch=3,
                                         image_size=32, threads=1, loader_threads=1, max_bad_images=2)
            words += [*([":"] if words else []), "-np", 1, "-wdir", place, *apart, KILN, *train]
        return subprocess.run(["mpirun", "--oversubscribe", *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, **ENVIRONMENT}, timeout=100)

    def test_hosts_divide_the_stream_that_each_of_them_has(self):
        if subprocess.run(["unshare", "--uts", "true"], capture_output=True).returncode != 0:
            self.skipTest("hosts with names of their own are made by root alone")
        names = sorted((self.data / "train").rglob("*.*"), key=lambda path: (path.name, path.parent.name))[:24]
        members = [(f"train/{path.parent.name}/{path.name}", path.read_bytes()) for path in names]
        members[5] = ("train/circle/bad.png", b"no image")
        result = self.train_on_streams(tar_of(members), tar_of(members))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        logs = [(self.folder / f"logs/70_driver_log_{rank}.txt").read_text() for rank in (0, 1)]
        self.assertEqual([log.count("train/circle/bad.png") for log in logs], [0, 1])
        result = self.train_on_streams(tar_of(members), tar_of(members[::-1]))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "Training dataset differs between ranks that divide it: rank 1 on host host1 found .*, "
                         "rank 0 on host host0 found ")

    def test_what_was_exchanged_before_a_run_is_resumed_is_named(self):
        train = self.copy_data()
        again = {"train_data_path": train, "checkpoint_path": self.folder / "checkpoints"}
        self.assertEqual(self.train(**again).returncode, 0)
        self.exchange_two_classes(train)
        result = self.train(**again, epochs=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = "32 training images do not have the bytes that this run read under the same name before: 'circle/0000.jpg', "
        self.assertIn(said, (self.folder / "logs/metrics.jsonl").read_text())


if __name__ == "__main__":
    main()
