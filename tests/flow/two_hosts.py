"""Two hosts on one machine: network namespaces joined by a cable, eth0 on both. Root alone can make them."""
import contextlib
import itertools
import os
import shutil
import signal
import subprocess


class TwoHosts:
    network = "10.77.0.0/24"
    addresses = ("10.77.0.1", "10.77.0.2")
    numbers = itertools.count()

    def __init__(self):
        number = next(self.numbers)
        self.spaces = [f"kiln{os.getpid()}n{number}{letter}" for letter in "ab"]

    def plug_in_for(self, test):
        """Until the end of the test, which is skipped where there is no such thing."""
        test.addCleanup(self.unplug)
        reason = self.plug()
        if reason:
            test.skipTest(f"two hosts cannot be made here: {reason}")

    def plug(self):
        """The reason why they cannot be made; otherwise nothing."""
        a, b = self.spaces
        lines = [f"ip netns add {a}", f"ip netns add {b}", f"ip link add eth0 netns {a} type veth peer name eth0 netns {b}"]
        for space, address in zip(self.spaces, self.addresses):
            lines += [f"ip -n {space} link set lo up", f"ip -n {space} addr add {address}/24 dev eth0",
                      f"ip -n {space} link set eth0 up"]
        for line in lines:
            try:
                done = subprocess.run(line.split(), capture_output=True, text=True)
            except FileNotFoundError:
                return "the program ip is not installed"
            if done.returncode != 0:
                return f"'{line}' failed: {done.stderr.strip()}"
        return None

    def cut(self):
        subprocess.run(["ip", "-n", self.spaces[1], "link", "set", "eth0", "down"], check=True)

    def processes(self):
        found = set()
        for space in self.spaces:
            listed = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True).stdout
            found |= set(map(int, listed.split()))
        return found

    def unplug(self):
        if shutil.which("ip") is None:
            return
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(process, signal.SIGKILL)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
