"""Training images that come in a stream: named pipes, standard input, a played SageMaker job in Pipe mode."""
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import threading
import time

from flow import FlowTest, main
from resumed_runs import ENVIRONMENT, Job, differences
from test_sagemaker import SageMakerTest as _SageMaker

STEPS = {"steps_per_epoch": 4, "image_size": 32}
MASK = 2 ** 64 - 1


def splitmix64(x):
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & MASK
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & MASK
    return x ^ (x >> 31)


def permutation(count, *key):
    """As base/random.h draws it: the order in which an epoch has the images of a folder."""
    state = 0
    for part in key:
        state = splitmix64(state ^ part)
    order = list(range(count))
    for drawn, i in enumerate(range(count, 1, -1)):
        j = splitmix64((state + 0x9e3779b97f4a7c15 * drawn) & MASK) * i >> 64
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def images_of(folder):
    """Paths in the order of class folders."""
    return sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: (path.parent.name, path.name))


def tar_of(paths):
    """With class folders."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for path in paths:
            tar.add(path, f"train/{path.parent.name}/{path.name}")
    return file.getvalue()


def tar_with_labels(paths):
    """WebDataset's names, with the class's name in a file after each image."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for number, path in enumerate(paths):
            for suffix, data in ((path.suffix, path.read_bytes()), (".cls", path.parent.name.encode())):
                entry = tarfile.TarInfo(f"{number:05}{suffix}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return file.getvalue()


class StreamTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.images = images_of(self.data / "train")
        self.count = 48
        self.assertGreaterEqual(len(self.images), self.count)
        self.images = self.images[:self.count]

    def job(self, name, **options):
        return Job(self.folder / name, self.untrained, self.data, **{**STEPS, **options})

    def write_pipes(self, contents):
        """Makes named pipes, and writes them in the background as a platform does."""
        for pipe in contents:
            os.mkfifo(pipe)

        def write():
            for pipe, data in contents.items():
                try:
                    pipe.write_bytes(data)
                except BrokenPipeError:
                    pass
        thread = threading.Thread(target=write, daemon=True)
        thread.start()

    def ended(self, job, **settings):
        run = subprocess.run(job.words, cwd=job.folder, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True,
                             timeout=300, **settings)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def failed(self, job, *words):
        code, output = job.run()
        self.assertNotEqual(code, 0, output)
        for word in words:
            self.assertIn(word, output)


class EqualTest(StreamTest):
    def test_pipes_and_a_folder_give_equal_bits_where_their_order_is_equal(self):
        data = self.folder / "some"
        for path in self.images:
            (data / "train" / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, data / "train" / path.parent.name)
        shutil.copytree(self.data / "val", data / "val")
        files = Job(self.folder / "files", self.untrained, data, image_size=32)
        self.assertEqual(files.run()[0], 0)
        pipes = self.job("pipes", train_data_path="train_{epoch}", shuffle_buffer=1)
        self.write_pipes({pipes.folder / f"train_{epoch}": form([self.images[i] for i in permutation(self.count, 1, epoch + 1)])
                          for epoch, form in enumerate((tar_of, tar_with_labels))})
        output = self.ended(pipes)
        self.assertIn("at most 48 images in each epoch", output)
        self.assertEqual((pipes.folder / "model/model").read_bytes(), (files.folder / "model/model").read_bytes())

    def test_standard_input_goes_on_from_epoch_to_epoch(self):
        tars = [tar_of(self.images), tar_of(self.images[::-1])]
        made = []
        for name, path in (("input", "-"), ("files", "train_{epoch}")):
            job = self.job(name, train_data_path=path, shuffle_buffer=10)
            for epoch, tar in enumerate(tars):
                (job.folder / f"train_{epoch}").write_bytes(tar)
            (job.folder / "all").write_bytes(b"".join(tars))
            with open(job.folder / "all", "rb") as file:
                self.ended(job, stdin=file)
            made.append((job.folder / "model/model").read_bytes())
        self.assertEqual(made[0], made[1])

    def test_a_run_that_goes_on_ends_as_an_undisturbed_one(self):
        """The stream repeats itself in every epoch, and a second start counts from 0 again."""
        jobs = [self.job(name, train_data_path="train_{epoch}", shuffle_buffer=10, augment="standard")
                for name in ("straight", "resumed")]
        for job in jobs:
            for epoch in range(2):
                (job.folder / f"train_{epoch}").write_bytes(tar_of(self.images))
        straight, resumed = jobs
        self.ended(straight)
        code, output = resumed.stop_after(6, signal.SIGTERM)
        self.assertEqual(code, 128 + signal.SIGTERM, output)
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])


class FaultTest(StreamTest):
    def test_silent_damaged_and_missing_streams(self):
        job = self.job("silent", train_data_path="pipe", collective_timeout=3, stall_warning=1)
        os.mkfifo(job.folder / "pipe")
        self.failed(job, "is a pipe that nobody writes to for", "training waits for it", "--collective-timeout")
        job = self.job("absent", train_data_path="train_{epoch}", collective_timeout=2)
        self.failed(job, "train_0' is not there")
        job = self.job("cut", train_data_path="train_{epoch}")
        (job.folder / "train_0").write_bytes(tar_of(self.images)[:20000])
        self.failed(job, "in the middle of a record")
        self.failed(self.job("endless", train_data_path="train_{epoch}", steps_per_epoch=None), "--steps-per-epoch")
        self.failed(self.job("files", data_path=None), "--steps-per-epoch is for streams")

    def test_images_without_labels_are_error_24(self):
        job = self.job("unlabeled", train_data_path="train_{epoch}")
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(self.images[0], "1.png")
        (job.folder / "train_0").write_bytes(file.getvalue())
        self.failed(job, "has no label")
        info = json.loads(next(job.folder.rglob("error_info.json")).read_text())
        self.assertIn("24", json.dumps(info))

    def test_a_signal_ends_a_wait(self):
        job = self.job("waits", train_data_path="pipe")
        pipe = job.folder / "pipe"
        os.mkfifo(pipe)
        process = job.start()
        try:
            tar = tar_of(self.images)
            with open(pipe, "wb") as writer:
                writer.write(tar[:len(tar) // 2])
                writer.flush()
                end = time.monotonic() + 120
                while not job.events("start") and time.monotonic() < end and process.poll() is None:
                    time.sleep(0.01)
                process.send_signal(signal.SIGTERM)
                output, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + signal.SIGTERM, output)
        finally:
            process.kill()


class RanksTest(StreamTest):
    def test_a_channel_for_each_rank(self):
        """The shortest ends the epoch."""
        job = self.job("ranks", ranks=2, train_data_path="train_{epoch}", channel_per_rank=True, batch_size=6, epochs=1)
        self.write_pipes({job.folder / "train_0_0": tar_of(self.images[::2]), job.folder / "train_1_0": tar_of(self.images[1::2][:18])})
        output = self.ended(job)
        self.assertIn("3 of 4 steps", output)

    def test_two_ranks_on_one_stream_are_refused(self):
        self.failed(self.job("shared", ranks=2, train_data_path="train_{epoch}"), "gone for the 1 others")


class PipeModeTest(_SageMaker):
    def test_a_job_in_pipe_mode_with_two_ranks(self):
        self.lay_out({"sagemaker_mpi_num_of_processes_per_host": "2", "threads": "1", "batch_size": "6", "epochs": "2",
                      "steps_per_epoch": "3", "image_size": "32"}, channels={"validation": "val"})
        images = images_of(self.data / "train")
        modes = {"validation": "File", "model": "File", "train_0": "Pipe", "train_1": "Pipe"}
        self.write("inputdataconfig", {name: {"TrainingInputMode": mode} for name, mode in modes.items()})
        for rank in range(2):
            for epoch in range(2):
                (self.tree / f"input/data/train_{rank}_{epoch}").write_bytes(tar_of(images[rank::2][:18]))
        result = self.start()
        self.assert_trained(result)
        self.assertIn("--channel-per-rank=True", result.stdout)


if __name__ == "__main__":
    main()
