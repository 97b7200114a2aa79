"""What goes wrong in a job of many ranks, each really done. Every job ends in time, non-zero, says which rank and in
what phase, and leaves no process and nothing half-written."""
import itertools
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time

from flow import KILN, kiln, main
from jobs import LAUNCH, MPIRUN, JobTest, rank_of
from two_hosts import TwoHosts

BOTH = (MPIRUN, LAUNCH)
EACH_RANK_EACH_WAY = tuple(itertools.product(BOTH, (1, 0)))
PRIVATE = ["unshare", "--mount", "--propagation", "private"]


def cover_words(covers):
    return "".join(f"mount --bind '{over}' '{under}'; " for over, under in covers)


class HostsBySsh(TwoHosts):
    """With a stand-in for ssh that enters the second, where `covers`, pairs of paths, are put over each other."""

    def __init__(self, folder, covers=()):
        super().__init__()
        self.agent = folder / "agent"
        a, b = self.spaces
        self.agent.write_text("#!/bin/bash\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
                              "host=$1; shift\n"
                              f"case $host in {self.addresses[0]}) ns={a};; {self.addresses[1]}) ns={b};; *) exit 1;; esac\n"
                              "exec ip netns exec $ns unshare --uts --mount --propagation private sh -c \"hostname $ns; "
                              f"{cover_words(covers)} $*\"\n")
        self.agent.chmod(0o755)

    def words(self, words):
        """The command on the first host."""
        return ["ip", "netns", "exec", self.spaces[0], "unshare", "--uts", "sh", "-c",
                f"hostname {self.spaces[0]}; exec \"$@\"", "sh", *words]

    def environment(self):
        return {"OMPI_MCA_plm_rsh_agent": str(self.agent), "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp",
                "OMPI_MCA_btl_tcp_if_include": self.network, "OMPI_MCA_oob_tcp_if_include": self.network}


class FailingTest(JobTest):
    timeout = 8  # of collectives, where a test waits for it: longer than a busy machine delays a rank

    def assert_failed(self, job, since, code, *words):
        self.assertEqual(job.end(), code, job.output)
        self.assertLess(time.monotonic() - since, self.timeout + 30)
        self.assert_nothing_left(job)
        self.assert_names(job.output, *words)
        self.assertNotIn("bug in kiln", job.output)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def assert_error_info(self, code, *words):
        info = self.error_info()
        self.assertEqual(info["ErrorCode"], code, info)
        self.assert_names(info["Message"], *words)

    def start_on_two_hosts(self, covers=(), **options):
        self.hosts = HostsBySsh(self.folder, covers)
        self.hosts.plug_in_for(self)
        train = self.train_arguments(**{"threads": 1, "loader_threads": 1, **options})
        words = [KILN, "launch", "--ranks", 2, "--hosts", ",".join(f"{address}:1" for address in self.hosts.addresses), "--", *train]
        return self.start_words(self.hosts.words(words), self.hosts.environment())

    def start_apart(self, how, covers=(), **options):
        """A job whose rank 1 has mounts of its own, where `covers`, pairs of paths, lie over each other."""
        if how == LAUNCH:
            return self.start_on_two_hosts(covers, **options)
        train = [KILN, *self.train_arguments(**{"threads": 1, "loader_threads": 1, **options})]
        apart = [*PRIVATE, "sh", "-c", cover_words(covers) + 'exec "$@"', "sh"]
        return self.start_words(["mpirun", "--oversubscribe", "-np", 1, *train, ":", "-np", 1, *apart, *train])

    def rank_1(self, job, how):
        if how == MPIRUN:
            return job.ranks()[1]
        return next(process for process in self.hosts.processes() if rank_of(process) == 1)

    def needs_private_mounts(self):
        tried = subprocess.run([*PRIVATE, "mount", "-t", "tmpfs", "none", self.folder], capture_output=True)
        if tried.returncode != 0:
            self.skipTest("a private mount namespace is not permitted here: " + tried.stderr.decode().strip())


class KilledTest(FailingTest):
    def test_kill_9(self):
        for how, rank in EACH_RANK_EACH_WAY:
            with self.subTest(how=how, rank=rank):
                self.at_night_unless((how, rank) == (MPIRUN, 1))  # test_launch.py has the other way
                self.new_folder()
                job, since = self.start_long(how), time.monotonic()
                os.kill(job.ranks()[rank], signal.SIGKILL)
                self.assert_failed(job, since, 137, f"rank {rank} ", "signal 9 (Killed)")
                if how == LAUNCH:
                    self.assert_error_info(39, f"Rank {rank} on host ")


class SharedMemoryTest(FailingTest):
    def test_too_little_of_it(self):
        self.needs_private_mounts()
        cramped = [*PRIVATE, "sh", "-c", "mount -t tmpfs -o size=1m none /dev/shm; exec \"$@\"", "sh"]
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder("/var/tmp")  # /dev/shm is covered
                since = time.monotonic()
                job = self.start_words([*cramped, *self.words(how, 2)])
                self.assert_failed(job, since, 1, "/dev/shm has 1 MiB", "the 2 ranks on this host need 10 MiB",
                                   "--shm-size=1g")
                self.assert_error_info(2000, "--shm-size=1g")


class StoppedTest(FailingTest):
    def test_stopped_for_longer_than_the_deadline(self):
        for how, rank in EACH_RANK_EACH_WAY:
            with self.subTest(how=how, rank=rank):
                self.at_night_unless((how, rank) == (LAUNCH, 0))
                self.new_folder()
                job, since = self.start_long(how, collective_timeout=self.timeout), time.monotonic()
                os.kill(job.ranks()[rank], signal.SIGSTOP)
                self.assert_failed(job, since, 3)
                self.assertRegex(job.output,
                                 rf"Missing: rank {rank} on host \S+, last seen (training|evaluating), epoch \d")
                self.assertRegex(job.output, r"This rank was (training|evaluating), epoch \d")
                self.assert_error_info(72, f"Missing: rank {rank} on host ")

    def test_all_stopped_for_longer_than_the_deadline_go_on(self):
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == LAUNCH)
                self.new_folder()
                job = self.start_long(how, collective_timeout=self.timeout)
                stopped = job.processes()
                self.assertGreater(len(stopped), 2)
                for sent in (signal.SIGSTOP, signal.SIGCONT):
                    for process in stopped:
                        os.kill(process, sent)
                    if sent == signal.SIGSTOP:
                        time.sleep(self.timeout + 1)
                        steps = job.log(0).count("Epoch: [")
                last = time.monotonic() + 30
                while job.log(0).count("Epoch: [") < steps + 6 and job.process.poll() is None:
                    self.assertLess(time.monotonic(), last, job.output)
                    time.sleep(0.1)
                self.assertIsNone(job.process.poll(), job.output)

    def test_one_of_three(self):
        job, since = self.start_long(MPIRUN, 3, batch_size=16, collective_timeout=self.timeout), time.monotonic()
        os.kill(job.ranks()[1], signal.SIGSTOP)
        self.assert_failed(job, since, 3, "Missing: rank 1 on host ")
        self.assert_error_info(72, "Missing: rank 1 on host ")
        self.assertIn("ERROR ", job.log(2))

    def test_stall_warning(self):
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == LAUNCH)
                self.new_folder()
                job = self.start_long(how, collective_timeout=10)
                stopped = job.ranks()[1]
                os.kill(stopped, signal.SIGSTOP)
                job.wait_for("Missing: rank 1 on host ")
                os.kill(stopped, signal.SIGCONT)
                os.kill(job.ranks()[0], signal.SIGTERM)  # mpirun would kill its ranks 2 s after its own
                self.assertEqual(job.end(), 143, job.output)
                self.assertRegex(job.log(0),
                                 r"waiting for [1-9] s for the [a-z -]+ over all ranks. Missing: rank 1 on host ")
                self.assert_whole_model()


class DataTest(FailingTest):
    def test_mount_fails_in_mid_epoch(self):
        self.needs_private_mounts()
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder()
                train = self.copy_data()
                job = self.start_apart(how, train_data_path=train, epochs=100000, patience=100000, cache="none", batch_size=4)
                job.wait_for("Epoch: [2")
                since = time.monotonic()
                subprocess.run(["nsenter", "-t", str(self.rank_1(job, how)), "-m", "mount", "-t", "tmpfs", "none", train],
                               check=True)
                self.assert_failed(job, since, 1, "error: Training dataset", "file missing, read by rank 1 on host ")
                self.assert_error_info(18, "read by rank 1 on host ")

    def test_loader_thread_throws(self):
        for how, rank in EACH_RANK_EACH_WAY:
            with self.subTest(how=how, rank=rank):
                self.at_night_unless((how, rank) == (LAUNCH, 0))
                self.new_folder()
                job, since = self.start_long(how, cache="none"), time.monotonic()
                resource.prlimit(job.ranks()[rank], resource.RLIMIT_NOFILE, (3, 3))
                self.assert_failed(job, since, 3, f"rank {rank} on host ", "Too many open files")
                if how == LAUNCH:
                    self.assertRegex(job.output,
                                     rf"Last lines of rank {rank} on host .*, phase '(training|evaluating), epoch ")
                    self.assert_error_info(39)

    def test_fewer_images_than_ranks(self):
        """By day in a unit test, as the next."""
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(False)
                self.new_folder()
                train = self.copy_data()
                for folder in train.iterdir():
                    for path in sorted(folder.iterdir())[1:]:
                        path.unlink()
                since = time.monotonic()
                job = self.start(how, 4, train_data_path=train, batch_size=1)
                self.assert_failed(job, since, 1, "on each of 4 ranks", "has only 3 images", "use fewer ranks, or more")
                self.assert_error_info(7)

    def test_fewer_images_than_one_global_batch(self):
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(False)
                self.new_folder()
                since = time.monotonic()
                job = self.start(how, batch_size=25)
                self.assert_failed(job, since, 1, "25 on each of 2 ranks", "use --batch-size 24 or less")
                self.assert_error_info(7)


class SignalTest(FailingTest):
    def test_sigterm_to_one_rank(self):
        for how, rank in EACH_RANK_EACH_WAY:
            with self.subTest(how=how, rank=rank):
                self.at_night_unless((how, rank) == (MPIRUN, 1))
                self.new_folder()
                job = self.start_long(how, until="Epoch 2,")
                os.kill(job.ranks()[rank], signal.SIGTERM)
                self.assertEqual(job.end(), 143, job.output)
                self.assert_nothing_left(job)
                self.assert_whole_model()
                training = self.training()
                self.assertEqual(training["stopped_early"], "signal")
                self.assertGreaterEqual(len(training["epochs"]), 2)
                best = max(training["epochs"], key=lambda epoch: (epoch["top1"], -epoch["valid_loss"], -epoch["epoch"]))
                self.assertEqual(training["saved_epoch"], best["epoch"])
                for log in (job.log(0), job.log(1)):
                    self.assertIn("Stopped by signal 15.", log)
                    self.assertNotIn("ERROR", log)

    def test_sigterm_to_mpirun_or_launch(self):
        for how in BOTH:
            with self.subTest(how=how):
                self.new_folder()
                job = self.start_long(how, until="Epoch 2,")
                job.process.terminate()
                code = job.end()
                self.assert_nothing_left(job)
                if how == LAUNCH:
                    self.assertEqual(code, 143, job.output)
                else:
                    self.assertNotEqual(code, 0, job.output)
                if how == LAUNCH or (self.folder / "model/_meta.yaml").exists():
                    self.assert_whole_model()


class DifferentTest(FailingTest):
    def assert_refused_at_start(self, job, code, *words):
        self.assert_failed(job, time.monotonic(), 1, *words)
        self.assert_error_info(code, *words)
        self.assertNotIn("Epoch", job.output)

    def test_option(self):
        self.needs_private_mounts()
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder()
                config, other = self.folder / "run.yaml", self.folder / "other.yaml"
                config.write_text("epochs: 5")
                other.write_text("epochs: 3")
                job = self.start_apart(how, [(other, config)], epochs=None, config=config)
                self.assert_refused_at_start(job, 2000, "rank 1 on host ", "--epochs is '3' there and '5' on rank 0")

    def test_version(self):
        self.needs_private_mounts()
        other = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-"))
        self.addCleanup(shutil.rmtree, other)
        version = kiln("--version").stdout.split()
        text = f"kiln {version[version.index('kiln') + 1]} ({version[version.index('commit') + 1]})".encode()
        replaced = []
        for file in (pathlib.Path(KILN), pathlib.Path(KILN).parent / "libkiln.so"):
            content = file.read_bytes()
            self.assertIn(text, content)
            (other / file.name).write_bytes(content.replace(text, text[:-2] + b"?)"))
            (other / file.name).chmod(0o755)
            replaced.append((other / file.name, file))
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder()
                job = self.start_apart(how, replaced)
                self.assert_refused_at_start(job, 2000, "rank 1 on host ", "version is 'kiln ", "?", text.decode())

    def test_data(self):
        self.needs_private_mounts()
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == MPIRUN)
                self.new_folder()
                train, other = self.copy_data(), self.folder / "other"
                shutil.copytree(train, other)
                image = sorted(sorted(path for path in other.iterdir() if path.is_dir())[-1].iterdir())[0]
                image.rename(image.with_stem("another"))
                job = self.start_apart(how, [(other, train)], valid_data_path=train, shard_by="train")
                self.assert_refused_at_start(job, 18, "differs between ranks: rank 1 on host ", "found 48 images, list ")

    def test_number_of_ranks(self):
        for how in BOTH:
            with self.subTest(how=how):
                self.at_night_unless(how == LAUNCH)
                self.new_folder()
                job = self.start(how, expect_ranks=3)
                self.assert_failed(job, time.monotonic(), 1, "This job has 2 ranks, but --expect-ranks is 3")
                self.assert_error_info(2000)
        self.new_folder()
        job = self.start_words(self.words(MPIRUN, 2), {"KILN_LAUNCHED": "3"})
        self.assert_failed(job, time.monotonic(), 1, "This job has 2 ranks, but kiln launch started 3")


class NetworkTest(FailingTest):
    def assert_hosts_empty(self, patience):
        last = time.monotonic() + patience
        while (left := self.hosts.processes()) and time.monotonic() < last:
            time.sleep(0.2)
        self.assertEqual(left, set())

    def test_a_run_over_two_hosts(self):
        job = self.start_on_two_hosts(epochs=2)
        self.assertEqual(job.end(), 0, job.output)
        self.assert_whole_model()
        self.assertIn("2 on hosts " + ", ".join(self.hosts.spaces), job.log(0))
        self.assert_hosts_empty(10)

    def test_the_cable_is_cut(self):
        job = self.start_on_two_hosts(epochs=100000, patience=100000, collective_timeout=self.timeout)
        job.wait_for("Epoch: [3")
        processes = {rank_of(process): process for process in self.hosts.processes()}
        self.assertLessEqual({0, 1}, set(processes))
        since = time.monotonic()
        self.hosts.cut()
        self.assertNotEqual(job.end(), 0, job.output)
        print(f"ended {time.monotonic() - since:.1f} s after the cut")
        self.assertLess(time.monotonic() - since, self.timeout + 30)
        self.assertRegex(job.output, "(?i)rank 1 on host ")
        self.assertFalse((self.folder / "model/_meta.yaml").exists())
        self.assert_hosts_empty(since + self.timeout + 30 - time.monotonic())
        print(f"empty {time.monotonic() - since:.1f} s after the cut")


def number_of_gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
    except FileNotFoundError:
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())


class OnTwoGpus:
    """The same with every rank on a GPU of its own, over NCCL."""
    device = "cuda"

    def setUp(self):
        if (found := number_of_gpus()) < 2:
            self.skipTest(f"gpu: two GPUs are needed, {found} found")
        super().setUp()


class KilledOnGpusTest(OnTwoGpus, KilledTest):
    pass


class StoppedOnGpusTest(OnTwoGpus, StoppedTest):
    pass


class DataOnGpusTest(OnTwoGpus, DataTest):
    pass


class SignalOnGpusTest(OnTwoGpus, SignalTest):
    pass


if __name__ == "__main__":
    main()
