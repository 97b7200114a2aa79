"""Jobs of many ranks: starts them by plain mpirun or `kiln launch`, finds their processes, waits for what they say."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from flow import KILN, FlowTest, kiln

MPIRUN, LAUNCH = "mpirun", "launch"
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}


def command_of(process):
    """Its words, joined by blanks; empty when it is gone or a zombie."""
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def processes_with(marker):
    """Those whose command line holds `marker`; a zombie's is empty."""
    numbers = (int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*"))
    return {number for number in numbers if marker in command_of(number)}


def rank_of(process):
    """Its rank; None for what is no rank of kiln."""
    try:
        program = os.readlink(f"/proc/{process}/exe")
        environment = pathlib.Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return None
    match = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environment)
    return int(match[1]) if match and pathlib.Path(program).name == "kiln" else None


class Job:
    """A job at work. Its processes are those whose command line holds the name of the test's folder."""

    def __init__(self, folder, words, environment=None):
        self.marker, self.logs, self.output_path = folder.name, folder / "logs", folder / "output.txt"
        with open(self.output_path, "wb") as output:
            self.process = subprocess.Popen([*map(str, words)], stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, start_new_session=True,
                                            env={**os.environ, **ENVIRONMENT, **(environment or {})})

    @property
    def output(self):
        return self.output_path.read_text(errors="replace")

    def log(self, rank):
        path = self.logs / f"70_driver_log_{rank}.txt"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_for(self, text, rank=0, timeout=120):
        """Until the driver log of `rank` holds `text`."""
        last = time.monotonic() + timeout
        while text not in self.log(rank):
            ended = self.process.poll() is not None
            if (ended and text not in self.log(rank)) or time.monotonic() > last:
                raise AssertionError(f"'{text}' never came:\n{self.output}")
            time.sleep(0.02)

    def processes(self):
        return processes_with(self.marker)

    def ranks(self):
        return {rank: process for process in self.processes() if (rank := rank_of(process)) is not None}

    def end(self, timeout=120):
        return self.process.wait(timeout)

    def left_over(self, patience=10):
        last = time.monotonic() + patience
        while (left := self.processes()) and time.monotonic() < last:
            time.sleep(0.1)
        return left

    def clean_up(self):
        for process in self.processes() | ({self.process.pid} if self.process.poll() is None else set()):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


class JobTest(FlowTest):
    def new_folder(self, place=None):
        """For a second job in one test, or for one that needs it at another place than TMPDIR."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-flow-", dir=place))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def at_night_unless(self, usual):
        if not usual and os.environ.get("KILN_NIGHTLY") != "1":
            self.skipTest("only with KILN_NIGHTLY=1")

    def words(self, how, ranks, **options):
        train = self.train_arguments(**{"threads": 1, "loader_threads": 1, **options})
        if how == LAUNCH:
            return [KILN, "launch", "--ranks", ranks, "--", *train]
        return ["mpirun", "--oversubscribe", "-np", ranks, KILN, *train]

    def start(self, how, ranks=2, **options):
        return self.start_words(self.words(how, ranks, **options))

    def start_words(self, words, environment=None):
        job = Job(self.folder, words, environment)
        self.addCleanup(job.clean_up)
        return job

    def start_long(self, how, ranks=2, until="Epoch: [3", **options):
        """A job that would never end, and trains. Every rank knows by then that the others do."""
        job = self.start(how, ranks, **{"epochs": 100000, "patience": 100000, **options})
        job.wait_for(until)
        return job

    def finish(self, how, ranks=2, **options):
        """A job from beginning to its good end."""
        job = self.start(how, ranks, **options)
        self.assertEqual(job.end(), 0, job.output)
        self.assert_nothing_left(job)
        return job

    def assert_nothing_left(self, job):
        left = {process: command_of(process) for process in job.left_over()}
        self.assertEqual(left, {}, job.output)

    def assert_whole_model(self):
        result = kiln("inspect", self.folder / "model")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
