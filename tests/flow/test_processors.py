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


def num_cores():
    """Hardware threads of one core are one."""
    files = (pathlib.Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list") for number in os.sched_getaffinity(0))
    return len({file.read_text() if file.exists() else file for file in files})


def environment_without(*names, **more):
    return {**{name: value for name, value in os.environ.items() if name not in names}, **more}


def wait_until(seconds, holds):
    """Whether it holds within that time."""
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(.1)
    return held


class SharingTest(FlowTest):
    def start_run(self, **variables):
        environment = environment_without("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", **variables)
        arguments = [KILN, *map(str, self.train_arguments(epochs=1000, patience=1000, threads="auto"))]
        process = start_until(self, "Epoch 1,", arguments, env=environment)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return pathlib.Path(f"/proc/{process.pid}")

    def start_others(self):
        """Two busy processes a processor; what ends them."""
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]

        def end():
            for one in busy:
                one.kill()
                one.wait()
        self.addCleanup(end)
        return end

    @staticmethod
    def has_sleeping_team(run):
        return any(thread.joinpath("comm").read_text() == "sleeping team\n" for thread in run.joinpath("task").iterdir())

    def test_threads_sleep_and_gather_while_others_use_the_processors(self):
        if num_cores() < 2:
            self.skipTest("there is one core, so no half to gather on")
        if not pathlib.Path("/proc/self/schedstat").exists():
            self.skipTest("the system does not tell how long threads wait for processors")
        run = self.start_run()
        everywhere = allowed(run)
        end_others = self.start_others()
        self.assertTrue(wait_until(60, lambda: self.has_sleeping_team(run)))
        self.assertTrue(wait_until(60, lambda: allowed(run) != everywhere))
        self.assertLessEqual(numbers_of(allowed(run)), numbers_of(everywhere))
        end_others()
        self.assertTrue(wait_until(60, lambda: allowed(run) == everywhere and not self.has_sleeping_team(run)))

    def keeps_its_threads_awake(self, **own):
        run = self.start_run(**own)
        self.start_others()
        self.assertFalse(wait_until(2, lambda: self.has_sleeping_team(run)))

    def test_the_users_own_count(self):
        self.keeps_its_threads_awake(GOMP_SPINCOUNT="77")

    def test_the_users_own_policy(self):
        self.keeps_its_threads_awake(OMP_WAIT_POLICY="active")


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

    def test_off_leaves_them_all(self):
        mine = allowed(pathlib.Path("/proc/self"))
        self.assertEqual(self.processors_of_ranks(bind="off"), {0: {mine}, 1: {mine}})

    def test_a_host_that_forbids_it(self):
        if NUMBER is None:
            self.skipTest("the call's number is not known here")
        result = kiln(*self.train_arguments(ranks=2, threads=1), preexec=forbid_binding, environment=ENVIRONMENT)
        self.assertEqual(result.returncode, 0, result.stderr)


if __name__ == "__main__":
    main()
