"""Two ranks on stand-in devices: a rank dies, stops or runs out of memory. Each job ends in time and says which rank."""
import os
import signal

from stand_in import GpuTest, main
from flow import KILN
from jobs import LAUNCH, JobTest


class RanksTest(GpuTest, JobTest):
    timeout = 8  # of collectives

    def start_training(self):
        return self.start_long(LAUNCH, until="Epoch: [2", batch_size=8, collective_timeout=self.timeout)

    def assert_failed(self, job, code, *words):
        self.assertEqual(job.end(60), code, job.output)
        self.assert_nothing_left(job)
        for word in words:
            self.assertIn(word, job.output)
        self.assertNotIn("bug in kiln", job.output)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())

    def test_a_rank_is_killed(self):
        job = self.start_training()
        os.kill(job.ranks()[1], signal.SIGKILL)
        self.assert_failed(job, 137, "rank 1 ", "signal 9 (Killed)")

    def test_a_rank_stops(self):
        job = self.start_training()
        os.kill(job.ranks()[1], signal.SIGSTOP)
        self.assert_failed(job, 3, "Missing: rank 1 on host ")
        self.assertIn("Missing: rank 1 on host ", self.error_info()["Message"])

    def test_the_job_is_stopped(self):
        job = self.start_training()
        os.kill(job.process.pid, signal.SIGTERM)
        self.assertEqual(job.end(60), 143, job.output)
        self.assert_whole_model()

    # What it owns cannot be freed then: the kernels of its sums wait for ranks that are gone.
    def test_a_rank_runs_out_of_memory_and_says_so_before_it_lets_go_of_anything(self):
        train = self.train_arguments(epochs=2, batch_size=8, threads=1)
        words = ["bash", "-c", '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || export KILN_STAND_IN_FREE_HANGS=1 '
                 'PYTORCH_CUDA_ALLOC_CONF=per_process_memory_fraction:0.01; exec "$@"', "rank"]
        job = self.start_words(["mpirun", "--oversubscribe", "--bind-to", "none", "-np", 2, *words, KILN, *train])
        self.assert_failed(job, 3, "rank 1", "Out of memory on GPU ")
        self.assertIn("Out of memory on GPU ", job.log(1))
        self.assertIn("Out of memory on GPU ", self.error_info()["Message"])


if __name__ == "__main__":
    main()
