"""The kit for a machine with a GPU: no part can outlast its command, and what was found stays when one is ended."""
import collections
import os
import pathlib
import re
import subprocess
import tarfile
import tempfile
import time
import unittest

from stand_in import main

HERE = pathlib.Path(__file__).parent
TEXT = (HERE / "run.sh").read_text()


class KitTest(unittest.TestCase):
    def test_the_steps_of_a_part_fit_into_it(self):
        limits = collections.Counter()
        for part, step, seconds in re.findall(r"^(first|ranks|fast) +(\w+) +(\d+)$", TEXT, re.M):
            limits[part] += int(seconds)
            self.assertIn(f"\n{step}() {{", (HERE / f"{part}.sh").read_text())
        self.assertEqual(set(limits), {"first", "ranks", "fast"})
        self.assertLessEqual(max(limits.values()), int(re.search(r"^part_seconds=(\d+)$", TEXT, re.M)[1]))

    # The bundle is empty, so every step fails at once.
    def test_logs_are_kept_after_each_step(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "kiln-gpu").mkdir()
            subprocess.run(["tar", "-cf", folder / "bundle.tar", "-C", folder, "kiln-gpu"], check=True)
            job = subprocess.Popen([HERE / "run.sh", "--device", "cpu", folder / "bundle.tar", folder / "results"],
                                   stdout=subprocess.DEVNULL, env={**os.environ, "KILN_PARITY_PACKAGES": str(folder)})
            last = time.monotonic() + 60
            while not (folder / "results/logs.tar.gz").exists() and time.monotonic() < last:
                time.sleep(0.02)
            job.terminate()
            job.wait()
            with tarfile.open(folder / "results/logs.tar.gz") as logs:
                self.assertIn("logs/first.machine/step.log", logs.getnames())
                self.assertIn(b"first.machine", logs.extractfile("logs/table.txt").read())


if __name__ == "__main__":
    main()
