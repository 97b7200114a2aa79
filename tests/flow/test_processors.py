"""Processors that others use too: when compute threads sleep, and which processors the ranks of a host keep to."""
import ctypes
import errno
import os
import pathlib
import platform
import re
import struct
import subprocess
import sys
import time

from flow import KILN, FlowTest, kiln, main, start_until
from jobs import ENVIRONMENT, JobTest

# sched_setaffinity
NUMBER = {"x86_64": 203, "aarch64": 122}.get(platform.machine())


def forbid_binding():
    """For the child, before kiln starts: a sandbox in which no process chooses its processors."""
    load, if_equal, end = 0x20, 0x15, 0x06
    allow, refuse = 0x7fff0000, 0x00050000 | errno.EPERM
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in (
        (load, 0, 0, 0), (if_equal, 0, 1, NUMBER), (end, 0, 0, refuse), (end, 0, 0, allow))))
    filter_of = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 4, ctypes.addressof(program)))
    library = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    if library.prctl(set_no_new_privileges, 1, 0, 0, 0) != 0 or library.prctl(set_seccomp, filter_mode, filter_of) != 0:
        raise OSError(ctypes.get_errno(), "no filter for system calls")


def allowed(process):
    return re.search(r"Cpus_allowed_list:\s*(.*)", (process / "status").read_text())[1]


def numbers_of(ranges):
    """The numbers of "0-2,5"."""
    ends = ([int(end) for end in part.split("-")] for part in ranges.split(","))
    return {number for end in ends for number in range(end[0], end[-1] + 1)}


def environment_without(*names, **more):
    return {**{name: value for name, value in os.environ.items() if name not in names}, **more}


class SpinningTest(FlowTest):
    def has_sleeping_team(self, seconds, **variables):
        """Whether a run that is kept waiting for processors gets one in that time."""
        environment = environment_without("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", **variables)
        arguments = [KILN, *map(str, self.train_arguments(epochs=1000, patience=1000, threads="auto"))]
        process = start_until(self, "Epoch 1,", arguments, env=environment)
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                threads = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
                if any(thread.joinpath("comm").read_text() == "sleeping team\n" for thread in threads):
                    return True
                time.sleep(0.1)
            return False
        finally:
            for one in [*busy, process]:
                one.kill()
                one.wait()

    def test_threads_sleep_while_others_use_the_processors(self):
        if os.cpu_count() == 1:
            self.skipTest("there is one processor, so one thread computes")
        if not pathlib.Path("/proc/self/schedstat").exists():
            self.skipTest("the system does not tell how long threads wait for processors")
        self.assertTrue(self.has_sleeping_team(seconds=60))

    def test_the_users_own(self):
        for own in ({"GOMP_SPINCOUNT": "77"}, {"OMP_WAIT_POLICY": "active"}):
            with self.subTest(own=own):
                self.assertFalse(self.has_sleeping_team(seconds=2, **own))


class BindingTest(JobTest):
    def processors_of_ranks(self, **options):
        """Rank -> the lists of processors that its threads may use, while the ranks are at work."""
        options = {"ranks": 2, "threads": 1, "epochs": 100000, "patience": 100000, **options}
        job = self.start_words([KILN, *self.train_arguments(**options)])
        job.wait_for("Epoch: [2")
        return {rank: {allowed(thread) for thread in pathlib.Path(f"/proc/{process}/task").iterdir()}
                for rank, process in job.ranks().items()}

    def test_ranks_of_a_host_keep_to_processors_of_their_own(self):
        quota = pathlib.Path("/sys/fs/cgroup/cpu.max")
        if len(os.sched_getaffinity(0)) < 2 or (quota.exists() and not quota.read_text().startswith("max")):
            self.skipTest("no two processors for two ranks")
        found = self.processors_of_ranks()
        self.assertEqual(sorted(found), [0, 1])
        first, second = (set().union(*map(numbers_of, found[rank])) for rank in (0, 1))
        self.assertTrue(first.isdisjoint(second), found)

    def test_a_host_that_forbids_it(self):
        if NUMBER is None:
            self.skipTest("the call's number is not known here")
        result = kiln(*self.train_arguments(ranks=2, threads=1), preexec=forbid_binding, environment=ENVIRONMENT)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    main()
