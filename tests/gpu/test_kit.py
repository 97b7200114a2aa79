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
        seconds = int(re.search(r"^part_seconds=(\d+)$", TEXT, re.M)[1])
        self.assertLessEqual(max(limits.values()), seconds)
        self.assertLessEqual(seconds, 600 - 30)  # with unpacking, and what is ended late

    def test_the_short_calls_of_the_readme_run_every_step(self):
        rows = re.findall(r"^(first|ranks|fast) +(\w+) +(\d+)$", TEXT, re.M)
        limits = {(part, step): int(seconds) for part, step, seconds in rows}
        named = []
        for part, steps in re.findall(r"--part (\w+) --steps ([\w,]+)", (HERE / "README.md").read_text()):
            group = [(part, step) for step in steps.split(",")]
            self.assertLessEqual(sum(limits[row] for row in group), 300, steps)
            named += group
        self.assertEqual(sorted(named), sorted(limits))

    def start(self, *words):
        """run.sh with an empty bundle, so every step fails at once."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "kiln-gpu").mkdir()
        subprocess.run(["tar", "-cf", folder / "bundle.tar", "-C", folder, "kiln-gpu"], check=True)
        job = subprocess.Popen([HERE / "run.sh", "--device", "cpu", *words, folder / "bundle.tar", folder / "results"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "KILN_PARITY_PACKAGES": str(folder)})
        return job, folder / "results"

    def test_logs_are_kept_after_each_step(self):
        job, results = self.start()
        last = time.monotonic() + 60
        while not (results / "logs.tar.gz").exists() and time.monotonic() < last:
            time.sleep(0.02)
        job.terminate()
        job.communicate()
        with tarfile.open(results / "logs.tar.gz") as logs:
            self.assertIn("logs/first.machine/step.log", logs.getnames())
            self.assertIn(b"first.machine", logs.extractfile("logs/table.txt").read())

    def test_steps_by_name(self):
        job, results = self.start("--part", "first", "--steps", "speed,machine")
        job.communicate()
        rows = [line.split()[0] for line in (results / "table.txt").read_text().splitlines() if line[0] != " "]
        self.assertEqual(rows, ["first.speed", "first.machine"])
        job, results = self.start("--part", "first", "--steps", "machine,soak")
        self.assertIn("'soak' is no step of: first", job.communicate()[1])
        self.assertEqual(job.returncode, 1)
        self.assertFalse(results.exists())


if __name__ == "__main__":
    main()
