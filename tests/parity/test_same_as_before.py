"""same_as_before.py itself: one build compared with itself is equal, with another seed it is not, and what is compared
and what is not. Standard library only."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from compare_runs import Comparison

HERE = pathlib.Path(__file__).resolve().parent
KILN = os.environ.get("KILN", str(HERE.parents[1] / "build/release/kiln"))
METRICS, TRAINING, WEIGHTS = "logs/metrics.jsonl", "model/training.json", "model/model.safetensors"


def same_as_before(new):
    """`one_epoch` with KILN and `new`; what it printed, and the folder that it kept."""
    done = subprocess.run([sys.executable, HERE / "same_as_before.py", KILN, new, "--only", "one_epoch", "--keep"],
                          capture_output=True, text=True, timeout=250)
    return done, pathlib.Path(re.search(r"^kept: (.*)$", done.stdout, re.M)[1])


class SameAsBefore(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.outcome, cls.kept = same_as_before(KILN)
        cls.addClassCleanup(shutil.rmtree, cls.kept, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-compare-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.new = self.folder / "new"
        shutil.copytree(self.kept / "one_epoch-old", self.new, copy_function=os.link)

    def differences(self):
        comparison = Comparison(self.kept / "one_epoch-old", self.new)
        comparison.compare_events(METRICS, last_epoch_is_cut=False)
        comparison.compare_model("model")
        return comparison.differences

    def assert_one_difference(self, *words):
        found = self.differences()
        self.assertEqual(len(found), 1, found)
        for word in words:
            self.assertIn(word, found[0])

    def rewrite(self, name, content):
        """The other names of the file keep what it held."""
        (self.new / name).unlink()
        (self.new / name).write_bytes(content)

    def change_event(self, number, change):
        lines = (self.new / METRICS).read_text().splitlines()
        event = json.loads(lines[number])
        change(event)
        lines[number] = json.dumps(event)
        self.rewrite(METRICS, ("\n".join(lines) + "\n").encode())

    def test_a_build_equals_itself(self):
        self.assertEqual(self.outcome.returncode, 0, self.outcome.stdout + self.outcome.stderr)
        self.assertRegex(self.outcome.stdout, r"(?m)^equal +one_epoch +exit code 0, 244 tensors, 6 events, \d{3,} fields")
        self.assertTrue(self.outcome.stdout.endswith("1 passed, 0 failed\n"), self.outcome.stdout)

    def test_another_seed_differs(self):
        other = self.folder / "kiln"
        other.write_text(f'#!/bin/sh\nif [ "$1" = train ]; then exec {KILN} "$@" --random-seed 2; fi\nexec {KILN} "$@"\n')
        other.chmod(0o755)
        outcome, kept = same_as_before(other)
        shutil.rmtree(kept)
        self.assertEqual(outcome.returncode, 1, outcome.stdout + outcome.stderr)
        self.assertRegex(outcome.stdout, re.escape(METRICS) + r": start: options.random-seed: old '1', new '2'")
        self.assertRegex(outcome.stdout, r"one_epoch: .*: step 1 1: batch.loss_sum: old [\d.]+, new [\d.]+")
        self.assertTrue(outcome.stdout.endswith("0 passed, 1 failed\n"), outcome.stdout)

    def test_one_bit_of_a_weight(self):
        content = bytearray((self.new / WEIGHTS).read_bytes())
        content[-1000] ^= 1
        self.rewrite(WEIGHTS, content)
        self.assert_one_difference(WEIGHTS, "[", "old", "new")

    def test_a_changed_and_a_missing_field(self):
        self.change_event(2, lambda event: event["so_far"].update(loss_sum=1.5))
        self.assert_one_difference(METRICS, "step 1 2", "so_far.loss_sum", "new 1.5")
        self.change_event(2, lambda event: event.pop("so_far"))
        self.assert_one_difference(METRICS, "step 1 2", "so_far", "new lacks it")

    def test_a_missing_event(self):
        lines = (self.new / METRICS).read_text().splitlines()
        self.rewrite(METRICS, ("\n".join(lines[:3] + lines[4:]) + "\n").encode())
        self.assert_one_difference(METRICS, "step 1 3", "new lacks it")

    def test_a_missing_file(self):
        (self.new / "model/index_to_label.csv").unlink()
        self.assert_one_difference("model/index_to_label.csv", "new lacks it")

    def test_times_may_differ_and_fields_may_be_added(self):
        def change(event):
            event["time"] += 1
            event["seconds"]["forward"] = 7.5
            event["novelty"] = 1
        self.change_event(2, change)
        (self.new / "model/preprocessing.json").write_text("{}")
        self.assertEqual(self.differences(), [])
        self.change_event(2, lambda event: event.update(time="noon"))
        self.assert_one_difference("step 1 2", "time")


if __name__ == "__main__":
    unittest.main(verbosity=2)
