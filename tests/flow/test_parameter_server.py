"""The parameter server: its plan, its losses, stopping and going on, a rank that is lost, and what it refuses."""
import os
import re
import signal
import time

from flow import assert_resumed, main
from jobs import LAUNCH, MPIRUN, JobTest

SERVERS = {"exchange": "parameter-server", "batch_size": 4, "learning_rate": 0.001, "patience": 100}


class ParameterServerTest(JobTest):
    def test_trains_with_two_servers(self):
        job = self.finish(MPIRUN, 4, **{**SERVERS, "exchange": "parameter-server:2"}, epochs=4, print_freq=1)
        self.assert_whole_model()
        log = job.log(0)
        start = self.start_event()
        self.assertEqual((start["num_ranks"], start["steps_per_epoch"], start["global_batch"]), (4, 6, 8))
        shares = re.findall(r"rank ([23]) on host \S+: \d+ tensors, ([\d.]+) MB", log)
        self.assertEqual([rank for rank, _ in shares], ["2", "3"])
        megabytes = [float(size) for _, size in shares]
        self.assertLess(max(megabytes) - min(megabytes), 0.01 * sum(megabytes))
        epochs = self.training()["epochs"]
        self.assertLess(epochs[-1]["train_loss"], epochs[0]["train_loss"])
        # Each step is told once, and in its order.
        self.assertEqual(re.findall(r"Epoch: \[(\d)/4\]\tIter: \[(\d)/6\]", log),
                         [(str(epoch), str(step)) for epoch in range(1, 5) for step in range(1, 7)])

    def test_stopped_in_mid_epoch_it_goes_on(self):
        """With steps of AdamW, and of accumulated and clipped gradients."""
        options = {**SERVERS, "batch_size": 2, "accumulate": 2, "clip_norm": 1, "optimizer": "adamw", "epochs": 6,
                   "print_freq": 1, "checkpoint_path": self.folder / "checkpoints"}
        job = self.start(MPIRUN, 3, **options)
        job.wait_for("Epoch: [2")
        os.kill(job.ranks()[2], signal.SIGTERM)  # the server
        self.assertEqual(job.end(), 143, job.output)
        result = self.train(**options, ranks=3, threads=1, loader_threads=1)
        assert_resumed(self, result, self.folder / "model", self.folder / "logs", 6)
        self.assertIn("a parameter server applies gradients in order of arrival", result.stdout + result.stderr)
        epochs = self.training()["epochs"]
        self.assertLess(epochs[-1]["train_loss"], epochs[0]["train_loss"])
        other = self.train(**{**options, "epochs": 7, "exchange": "parameter-server:2"}, ranks=3)
        self.assert_refused(other, 1, "--exchange", "parameter-server:2")

    def assert_lost(self, job, since, code, *words):
        self.assertEqual(job.end(), code, job.output)
        self.assertLess(time.monotonic() - since, 40)
        self.assert_nothing_left(job)
        self.assert_names(job.output, *words)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def test_a_killed_server_ends_the_job(self):
        job, since = self.start_long(LAUNCH, 3, **{**SERVERS, "patience": 100000}), time.monotonic()
        os.kill(job.ranks()[2], signal.SIGKILL)
        self.assert_lost(job, since, 137, "rank 2 ", "signal 9 (Killed)")
        self.assertEqual(self.error_info()["ErrorCode"], 39)

    def test_a_stopped_rank_ends_the_job_at_the_deadline(self):
        for rank in (1, 2):
            with self.subTest(rank=rank):
                self.at_night_unless(False)
                self.new_folder()
                options = {**SERVERS, "patience": 100000, "collective_timeout": 8}
                job, since = self.start_long(LAUNCH, 3, **options), time.monotonic()
                os.kill(job.ranks()[rank], signal.SIGSTOP)
                self.assert_lost(job, since, 3, f"rank {rank} on host ")
                self.assertEqual(self.error_info()["ErrorCode"], 72)


class RefusedTest(JobTest):
    def assert_nothing_begun(self, words, exchange="parameter-server", **options):
        path = self.folder / "checkpoints"
        result = self.train(exchange=exchange, checkpoint_path=path, **options)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn(words, result.stderr)
        self.assertNotIn("bug in kiln", result.stderr)
        self.assertFalse(path.exists())
        self.assertFalse((self.folder / "model").exists())

    def test_against_reason(self):
        self.assert_nothing_begun("needs at least 2 ranks, one of them a worker, but this job has 1")
        self.assert_nothing_begun("needs at least 4 ranks", exchange="parameter-server:3", ranks=3)
        self.assert_nothing_begun("--exchange is -1", exchange="parameter-server:-1", ranks=3)
        self.assert_nothing_begun("--sync-batch-norm cannot be used", sync_batch_norm=True, ranks=3)
        self.assert_nothing_begun("--freeze backbone cannot be used", freeze="backbone", ranks=3)
        self.assert_nothing_begun("--device cuda cannot be used", device="cuda", ranks=3)

    def test_launched_ranks_without_a_worker(self):
        job = self.start(MPIRUN, 2, exchange="parameter-server:2")
        self.assertEqual(job.end(), 1, job.output)
        self.assertIn("at least 3 ranks", job.output)
        self.assert_nothing_left(job)


if __name__ == "__main__":
    main()
