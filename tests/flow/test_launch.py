"""`kiln launch` and `kiln train --ranks`: what users see, exit codes, logs, stops, and that no process stays."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

from flow import KILN, FlowTest, kiln, main
from jobs import rank_of


def children_of_all():
    """Parent -> processes, of the whole machine; zombies left out."""
    table = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            table.setdefault(int(fields[1]), set()).add(int(stat.parent.name))
    return table


def descendants(process):
    table, found, new = children_of_all(), set(), {process}
    while new:
        new = {child for parent in new for child in table.get(parent, ())} - found
        found |= new
    return found


def alive(process):
    return any(process in children for children in children_of_all().values())


class RunningLaunch:
    """A `kiln launch` at work, and everything that it started."""

    def __init__(self, arguments, environment=None):
        self.process = subprocess.Popen([KILN, *map(str, arguments)], text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **(environment or {})}, start_new_session=True)
        self.seen, self.output = set(), ""

    def wait_for(self, text):
        """Reads rank 0's output until `text` comes."""
        for line in self.process.stdout:
            self.output += line
            if text in line:
                self.seen |= descendants(self.process.pid)
                return
        raise AssertionError(f"'{text}' never came:\n{self.output}{self.process.stderr.read()}")

    def ranks(self):
        return {rank: process for process in self.seen if (rank := rank_of(process)) is not None}

    def end(self, timeout=120):
        output, self.errors = self.process.communicate(timeout=timeout)
        self.output += output
        return self.process.returncode

    def left_over(self, patience=10):
        """Processes of the job that are still there; waits a little, as some die after their parent."""
        deadline = time.monotonic() + patience
        while (left := {process for process in self.seen if alive(process)}) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left


class LaunchTest(FlowTest):
    def launch_arguments(self, *own, **options):
        return ["launch", *own, "--", *self.train_arguments(**{"threads": 1, **options})]

    def launch(self, *own, environment=None, **options):
        return kiln(*self.launch_arguments(*own, **options), environment=environment)

    def mpi_log(self):
        return (self.folder / "logs/70_mpi_log.txt").read_text()

    def start_long_run(self, **options):
        running = RunningLaunch(self.launch_arguments("--ranks", 2, epochs=100000, patience=100000, **options))
        self.addCleanup(self.clean_up, running)
        return running

    def clean_up(self, running):
        for process in {running.process.pid, *running.seen}:
            if process == running.process.pid or rank_of(process) is not None:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        running.process.communicate()


class WrongCommandLineTest(LaunchTest):
    def assert_told_once(self, result, *words):
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for word in words:
            self.assertEqual(result.stderr.count(word), 1, result.stderr)
        self.assertFalse((self.folder / "logs/70_mpi_log.txt").exists(), "mpirun was started")

    def test_faults_of_train_are_told_once(self):
        result = self.launch("--ranks", 2, epochs=0, batch_sise=4)
        self.assert_told_once(result, "--batch-sise is not an option", "--epochs is 0")
        self.assertEqual(self.error_info()["ErrorCode"], 2)

    def test_faults_of_launch(self):
        self.assert_told_once(self.launch("--ranks", "two", "--log-path", self.folder / "logs", log_path=None),
                              "--ranks is 'two'")
        self.assert_told_once(self.launch("--rank", 2), "Did you mean '--ranks'?")
        self.assert_told_once(kiln("launch", "--ranks", 2, "--", "inspect", self.data), "-- train")

    def test_auto_without_a_gpu_asks_for_a_number(self):
        result = self.launch("--ranks", "auto")
        self.assert_refused(result, 1, "set a number of ranks")

    def test_train_with_auto_and_without_a_gpu_is_one_process(self):
        result = kiln(*self.train_arguments(ranks="auto"), environment={"PATH": "/nonexistent"})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.start_event()["num_ranks"], 1)
        self.assertFalse((self.folder / "logs/70_mpi_log.txt").exists())

    def test_without_mpirun_its_package_is_named(self):
        result = self.launch("--ranks", 2, environment={"PATH": "/nonexistent"})
        self.assert_refused(result, 1, "is not on PATH", "openmpi-bin")
        self.assertEqual(self.error_info()["ErrorCode"], 2000)

    def test_inside_an_mpi_job(self):
        inside = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
        for result in (self.launch("--ranks", 2, environment=inside),
                       kiln(*self.train_arguments(ranks=2), environment=inside)):
            self.assert_refused(result, 1, "already a rank of an MPI job")

    def test_by_one_of_several_processes_that_do_not_know_each_other(self):
        loose = {"RANK": "0", "WORLD_SIZE": "2"}
        for result in (self.launch("--ranks", 2, environment=loose),
                       kiln(*self.train_arguments(ranks=2), environment=loose)):
            self.assert_refused(result, 1, "MPIJob")


class RunTest(LaunchTest):
    def assert_trained(self, result):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())
        self.assertIsNone(self.error_info())
        self.assertEqual(self.start_event()["num_ranks"], 2)
        self.assertNotIn("[1,0]", result.stdout)
        self.assertNotIn(": phase: ", result.stdout)
        lines = self.mpi_log().splitlines()
        for line in lines:
            self.assertRegex(line, r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (launch|mpirun|rank \d) ")
        for rank in range(2):
            self.assertTrue(any(f" rank {rank} " in line for line in lines), f"rank {rank} said nothing")
            self.assertTrue((self.folder / f"logs/70_driver_log_{rank}.txt").exists())

    def test_train_with_ranks_is_launch_in_one_word_even_without_a_home(self):
        self.assert_trained(kiln(*self.train_arguments(ranks=2, threads=1), environment={"HOME": ""}))

    def test_the_failure_of_a_rank_in_another_container_is_noted_here_too(self):
        """Two containers share the log folder alone; the platform looks for the sentence in the one of `kiln launch`."""
        for name in ("here", "there"):
            (self.folder / name / "output").mkdir(parents=True)
        elsewhere = self.folder / "mpirun"
        elsewhere.write_text(f"#!/bin/sh\nSAGEMAKER_BASE_DIR='{self.folder}/there' exec {shutil.which('mpirun')} \"$@\"\n")
        elsewhere.chmod(0o755)
        places = {"SAGEMAKER_BASE_DIR": str(self.folder / "here"), "PATH": f"{self.folder}:{os.environ['PATH']}"}
        self.launch("--ranks", 2, environment=places, batch_size=1000)
        notes = [(self.folder / name / "output/failure").read_text() for name in ("here", "there")]
        self.assertIn("Batch size", notes[0])
        self.assertEqual(*notes)

    def test_a_failure_of_all_ranks_is_theirs_to_tell(self):
        result = self.launch("--ranks", 2, batch_size=1000)
        self.assert_fails(result, 1, 7, "70_mpi_log.txt")
        self.assertEqual((result.stdout + result.stderr).count("Batch size"), 1, "told once")
        self.assertNotIn("leaving", result.stderr)


class EndTest(LaunchTest):
    def assert_stopped(self, sent, code, again=False):
        running = self.start_long_run()
        running.wait_for("Epoch 1,")
        running.process.send_signal(sent)
        if again:
            time.sleep(0.2)
            running.process.send_signal(sent)
        self.assertEqual(running.end(), code, running.output + running.errors)
        self.assertEqual(running.left_over(), set())
        self.assertTrue((self.folder / "model/_meta.yaml").exists())
        self.assertNotIn("Last lines", running.errors)

    def test_sigint(self):
        self.assert_stopped(signal.SIGINT, 130)

    def test_a_terminal_that_is_closed(self):
        """The shell and the kernel both say so."""
        self.assert_stopped(signal.SIGHUP, 129, again=True)

    def test_sigusr1(self):
        self.assert_stopped(signal.SIGUSR1, 138)

    def test_sigusr2_writes_a_checkpoint_and_goes_on(self):
        place = self.folder / "checkpoints"
        running = self.start_long_run(checkpoint_path=place, checkpoint_every="1000000epochs")
        running.wait_for("Epoch 1,")
        before = {path for path in place.rglob("*") if path.is_file()}
        running.process.send_signal(signal.SIGUSR2)
        last = time.monotonic() + 60
        while before >= {path for path in place.rglob("*") if path.is_file()}:
            self.assertLess(time.monotonic(), last, running.output)
            running.wait_for("Epoch ")
        running.wait_for("Epoch ")
        self.assertEqual(len(running.ranks()), 2)
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.end(), 143, running.output + running.errors)

    def test_a_second_signal_kills(self):
        running = self.start_long_run()
        running.wait_for("Epoch 1,")
        for process in running.ranks().values():
            os.kill(process, signal.SIGSTOP)
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # two at once would be one
        running.process.send_signal(signal.SIGTERM)
        self.assertEqual(running.end(timeout=15), 143)
        self.assertEqual(running.left_over(patience=0.5), set())

    def test_nothing_outlives_a_killed_launch(self):
        running = self.start_long_run()
        running.wait_for("Epoch 1,")
        self.assertEqual(set(running.ranks()), {0, 1})
        running.process.kill()
        running.end()
        self.assertEqual(running.left_over(), set())

    def test_nothing_outlives_a_killed_mpirun(self):
        running = self.start_long_run()
        running.wait_for("Epoch 1,")
        mpirun = {process for process in running.seen
                  if pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/mpirun")}
        for process in mpirun:
            os.kill(process, signal.SIGKILL)
        self.assertEqual(running.end(), 137)
        self.assertEqual(running.left_over(), set())
        self.assertIn("exit code 137", running.errors)

    def test_a_killed_rank_is_named(self):
        running = self.start_long_run()
        running.wait_for("Epoch 1,")
        os.kill(running.ranks()[1], signal.SIGKILL)
        self.assertEqual(running.end(), 137, running.output + running.errors)
        self.assertEqual(running.left_over(), set())
        self.assertLess(running.errors.index("Last lines of rank 1 on host "),
                        running.errors.index("error: Rank 1 on host "))
        self.assert_names(running.errors, "signal 9", "in the phase '", "70_mpi_log.txt")
        self.assertEqual(self.error_info()["ErrorCode"], 39)
        self.assertFalse((self.folder / "model/_meta.yaml").exists())


if __name__ == "__main__":
    main()
