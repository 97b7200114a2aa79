"""Training images that come in a stream: named pipes, standard input, a played SageMaker job in Pipe mode."""
import contextlib
import io
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import tarfile
import threading
import time
import unittest.mock

from flow import FlowTest, kiln, main
from resumed_runs import ENVIRONMENT, Job, differences
from test_sagemaker import SageMakerTest as _SageMaker
from test_sagemaker_hosts import NAMES as HOSTS, HostsTest as _SageMakerHosts

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


def tfrecords(data):
    """Each with its framing: a length of 8 bytes, 4 bytes of checksum, the data, 4 bytes of checksum."""
    found, at = [], 0
    while at < len(data):
        end = at + 16 + struct.unpack_from("<Q", data, at)[0]
        found.append(data[at:end])
        at = end
    return found


def recordio_records(data):
    """Each with its framing: a magic number, the length and the kind of the part in 4 bytes, and data padded to 4 bytes."""
    found, at = [], 0
    while at < len(data):
        word, = struct.unpack_from("<I", data, at + 4)
        end = at + 8 + ((word & (1 << 29) - 1) + 3) // 4 * 4
        if word >> 29 in (0, 1):
            found.append(b"")
        found[-1] += data[at:end]
        at = end
    return found


def reordered(records, order):
    assert len(records) == len(order), len(records)
    return b"".join(records[i] for i in order)


class Platform:
    """Feeds the channels of a job in Pipe mode: each epoch has a named pipe, made when the one before has been read, and counted
    from 0. `held` is a pipe of which half is written and no more comes."""

    def __init__(self, folder, contents, held=None):
        self.folder, self.held, self.is_over = folder, held, False
        for channel, data in contents.items():
            threading.Thread(target=self.feed, args=(channel, data), daemon=True).start()

    def feed(self, channel, data):
        for epoch in itertools.count():
            pipe = self.folder / f"{channel}_{epoch}"
            os.mkfifo(pipe)
            try:
                with open(pipe, "wb", buffering=0) as writer:
                    is_held = pipe.name == self.held
                    writer.write(data[:len(data) // 2] if is_held else data)
                    while is_held and not self.is_over:
                        time.sleep(0.01)
            except BrokenPipeError:
                pass
            if self.is_over:
                return

    def end(self):
        """Also for those who wait for a reader."""
        self.is_over = True
        for pipe in self.folder.glob("*_*"):
            with contextlib.suppress(OSError):
                os.close(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK))


class StreamTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.images = images_of(self.data / "train")
        self.count = 48
        self.assertGreaterEqual(len(self.images), self.count)
        self.images = self.images[:self.count]

    def job(self, name, **options):
        return Job(self.folder / name, self.untrained, self.data, **{**STEPS, **options})

    def pack(self, source, form):
        """The one file of a folder that `kiln pack` writes."""
        target = self.folder / f"packed {form}"
        made = kiln("pack", source, target, "--format", form)
        self.assertEqual(made.returncode, 0, made.stderr)
        return next(target.glob("*." + {"recordio": "rec"}.get(form, form)))

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
        self.assert_names(output, *words)


class EqualTest(StreamTest):
    def test_every_form_gives_equal_bits_where_the_order_is_equal(self):
        """Class folders have the order of the seed, in which the pipes are written."""
        data = self.folder / "some"
        images = self.images[::2]
        for path in images:
            (data / "train" / path.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, data / "train" / path.parent.name)
        shutil.copytree(self.data / "val", data / "val")
        packed = {form: self.pack(data / "train", form) for form in ("tar", "tfrecord", "recordio")}
        order = permutation(len(images), 1, 1)
        job = Job(self.folder / "folder", self.untrained, data, image_size=32, epochs=1)
        self.ended(job)
        models = {"folder": (job.folder / "model/model").read_bytes()}
        streams = {"tar": tar_of([images[i] for i in order]), "labels": tar_with_labels([images[i] for i in order]),
                   "tfrecord": reordered(tfrecords(packed["tfrecord"].read_bytes()), order),
                   "recordio": reordered(recordio_records(packed["recordio"].read_bytes()), order)}
        validation = tar_of(images_of(data / "val"))
        for form, stream in streams.items():
            job = self.job(f"pipe of {form}", epochs=1, steps_per_epoch=2, train_data_path="train_{epoch}",
                           valid_data_path="validation", shuffle_buffer=1)
            self.write_pipes({job.folder / "train_0": stream})
            self.write_pipes({job.folder / "validation": validation})
            output = self.ended(job)
            self.assert_names(output, "24 images", "(archive 'validation'")
            models[job.folder.name] = (job.folder / "model/model").read_bytes()
        self.assertEqual({name for name, model in models.items() if model != models["folder"]}, set())

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
        resumed.stop_after(6)
        self.ended(resumed)
        self.assertEqual(differences(straight, resumed), [])


class FaultTest(StreamTest):
    def test_silent_damaged_and_missing_streams(self):
        job = self.job("silent", train_data_path="pipe", collective_timeout=3)
        os.mkfifo(job.folder / "pipe")
        self.failed(job, "is a pipe without a writer for", "training is waiting for it", "--collective-timeout")
        job = self.job("absent", train_data_path="train_{epoch}", collective_timeout=2)
        self.failed(job, "train_0' does not exist")
        job = self.job("cut", train_data_path="train_{epoch}")
        (job.folder / "train_0").write_bytes(tar_of(self.images)[:20000])
        self.failed(job, "in the middle of a record")
        self.failed(self.job("endless", train_data_path="train_{epoch}", steps_per_epoch=None), "--steps-per-epoch")
        self.failed(self.job("files", data_path=None), "--steps-per-epoch is for streams")

    def test_a_stream_that_falls_silent_in_an_epoch(self):
        """The pipe stays open in the middle of a record; what came before is trained on."""
        job = self.job("stalls", train_data_path="train_{epoch}", shuffle_buffer=1, batch_size=6, steps_per_epoch=8,
                       collective_timeout=3)
        platform = Platform(job.folder, {"train": tar_of(self.images)}, held="train_1")
        self.addCleanup(platform.end)
        self.failed(job, "Training dataset 'train_1' has sent no data for 1 s; training is waiting for it",
                    "error: Training dataset 'train_1' has sent no data for 3 s. Start the program", "--collective-timeout")
        self.assertIn(2, [event["epoch"] for event in job.events("step")])
        self.assertFalse((job.folder / "model/_meta.yaml").exists())

    def test_a_stream_of_data_without_images(self):
        """A record that claims 2 ** 63 bytes, or a file in a tar that is no image, may go on for ever."""
        huge = tarfile.TarInfo("notes.txt")
        huge.size = 2 ** 62
        for form, begin in (("record", struct.pack("<QI", 2 ** 63, 0xb6670895)), ("tar", huge.tobuf(tarfile.GNU_FORMAT))):
            with self.subTest(form=form):
                job = self.job(f"endless {form}", train_data_path="-", collective_timeout=3)
                (job.folder / "begin").write_bytes(begin)
                with subprocess.Popen(["cat", "begin", "/dev/zero"], cwd=job.folder, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL) as writer:
                    self.addCleanup(writer.kill)
                    run = subprocess.run(job.words, cwd=job.folder, env={**os.environ, **ENVIRONMENT}, stdin=writer.stdout,
                                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
                    writer.kill()
                self.assertEqual(run.returncode, 1, run.stdout)
                self.assert_names(run.stdout, "dataset '-'", "for 1 s", "for 3 s")

    def test_a_class_that_does_not_come_is_named(self):
        names = sorted({path.parent.name for path in images_of(self.data / "train")})
        images = [path for path in self.images if path.parent.name == self.images[0].parent.name]
        job = self.job("narrow", train_data_path="train_{epoch}", epochs=1, batch_size=4, steps_per_epoch=2)
        (job.folder / "train_0").write_bytes(tar_of(images[:8]))
        missing = [name for name in names if name != images[0].parent.name]
        self.assert_names(self.ended(job), f"no image of {len(missing)} of the {len(names)} classes", *missing)

    def test_images_without_labels_are_error_24(self):
        file = io.BytesIO()
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(self.images[0], "1.png")
        for part, words in (("train", "has no label"), ("valid", "have no labels")):
            with self.subTest(part=part):
                job = self.job(f"unlabeled {part}", **{f"{part}_data_path": part + "_{epoch}"},
                               **({} if part == "train" else {"steps_per_epoch": None}))
                (job.folder / f"{part}_0").write_bytes(file.getvalue())
                self.failed(job, words, f"'{part}_")
                info = json.loads(next(job.folder.rglob("error_info.json")).read_text())
                self.assertIn("24", json.dumps(info))

    def test_validation_streams(self):
        job = self.job("cut off", valid_data_path="valid_{epoch}", steps_per_epoch=None)
        (job.folder / "valid_0").write_bytes(tar_of(self.images)[:20000])
        self.failed(job, "Validation dataset 'valid_0'", "truncated after 20000 bytes")
        with unittest.mock.patch.dict(os.environ, TMPDIR="/proc"):
            self.failed(job, "Validation dataset 'valid_0'", "'/proc' cannot hold it", "Set TMPDIR to a folder")
        job = self.job("late", valid_data_path="valid_{epoch}", steps_per_epoch=None, collective_timeout=2)
        self.failed(job, "Validation dataset 'valid_0' does not exist")
        self.failed(self.job("shared", train_data_path="-", valid_data_path="-"), "--train-data-path is the same")
        job = self.job("linked", train_data_path="pipe", valid_data_path="link", collective_timeout=3)
        os.mkfifo(job.folder / "pipe")
        (job.folder / "link").symlink_to("pipe")
        self.failed(job, "--train-data-path is the same")
        job = self.job("split", data_path="images_{epoch}", train_data_path=None, valid_data_path=None, steps_per_epoch=None)
        self.failed(job, "cannot be split")

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
            self.assertNotIn("another rank", output)  # has not ended an epoch
        finally:
            process.kill()


class RanksTest(StreamTest):
    def test_a_channel_for_each_rank(self):
        """The shortest ends the epoch."""
        job = self.job("ranks", ranks=2, train_data_path="train_{rank}_{epoch}", batch_size=6, epochs=1)
        self.write_pipes({job.folder / "train_0_0": tar_of(self.images[::2]), job.folder / "train_1_0": tar_of(self.images[1::2][:18])})
        self.ended(job)
        self.assertEqual([event["num_steps"] for event in job.events("epoch")], [3])

    def test_two_ranks_on_one_stream_are_refused(self):
        self.failed(self.job("shared", ranks=2, train_data_path="train_{epoch}"), "can only be read once")


class PipeModeTest(_SageMaker):
    """Two ranks with a channel each, and one for validation."""

    def test_the_ranks_read_their_channels(self):
        for name in ("input/config", "input/data", "model", "output/data", "checkpoints"):
            (self.tree / name).mkdir(parents=True, exist_ok=True)
        self.lay_out({"sagemaker_mpi_num_of_processes_per_host": "2", "threads": "1", "batch_size": "6", "epochs": "2",
                      "steps_per_epoch": "3", "image_size": "32", "shuffle_buffer": "4", "patience": "100",
                      "learning-rate": "0.01"}, channels={})
        self.write("inputdataconfig", {"model": {"TrainingInputMode": "File"},
                                       **{name: {"TrainingInputMode": "Pipe"} for name in ("train_0", "train_1", "validation")}})
        images = images_of(self.data / "train")
        contents = {f"train_{rank}": tar_of(images[rank::2][:18]) for rank in range(2)}
        platform = Platform(self.tree / "input/data", {**contents, "validation": tar_of(images_of(self.data / "val"))})
        self.addCleanup(platform.end)
        result = self.start()
        self.assert_trained(result)
        self.assertIn("train_{rank}_{epoch}", result.stdout)


class PipeModeOnTwoHostsTest(_SageMakerHosts):
    """Two ranks on each host with a channel each, and one for validation, which the leading rank reads."""

    def start_job(self, held=None, checkpoints=None):
        """On new hosts. `held`: a pipe of the second host, as Platform has it. `checkpoints` are those of an earlier start."""
        self.lay_out("ShardedByS3Key", ("train_0", "train_1", "validation"), sagemaker_mpi_num_of_processes_per_host="2", batch_size="3",
                     epochs="2", steps_per_epoch="2", image_size="32", shuffle_buffer="4", patience="100", learning_rate="0.01")
        images, validation = images_of(self.data / "train"), tar_of(images_of(self.data / "val"))
        for host, name in enumerate(HOSTS):
            tree = self.folder / name
            contents = {f"train_{rank}": tar_of(images[2 * host + rank::4][:6]) for rank in range(2)}
            if checkpoints:  # from where the platform has kept those of all hosts
                shutil.copytree(checkpoints, tree / "checkpoints")
            else:
                (tree / "checkpoints").mkdir()
            platform = Platform(tree / "input/data", {**contents, "validation": validation}, held if host == 1 else None)
            self.addCleanup(platform.end)
        return self.start()

    def put_away(self, name):
        """The folder of the leading host, which has ended, as that of no host of a job."""
        (self.folder / HOSTS[1]).rename(self.folder / f"{name} follower")
        return (self.folder / HOSTS[0]).rename(self.folder / name)

    def test_a_job_that_is_stopped_and_started_again_ends_as_an_undisturbed_one(self):
        self.assert_end(self.start_job(), 0)
        self.assertIn("4 ranks on 2 hosts", self.output_path(0).read_text())
        straight = self.put_away("straight") / "model/model"

        jobs = self.start_job(held="train_1_1")
        self.wait_for("Epoch 1,")
        for job in jobs:
            job.terminate()
        self.assert_end(jobs, 143)
        stopped = self.put_away("stopped")

        self.assert_end(self.start_job(checkpoints=stopped / "checkpoints"), 0)
        self.assertNotIn("\nEpoch 1,", self.output_path(0).read_text())
        self.assert_model_of_the_leader_alone()
        self.assertEqual((self.folder / HOSTS[0] / "model/model").read_bytes(), straight.read_bytes())


if __name__ == "__main__":
    main()
