"""`kiln train --trace`: the timeline of steps 20 to 40, as a viewer reads it, and where it cannot be written."""
import json
import os
import re
import subprocess

from browser import BrowserCase
from flow import FlowTest, main

FIRST, LAST = 20, 40
PHASES = {"wait for images", "forward", "backward", "wait for all-reduce", "optimizer"}


class Trace:
    """A file of spans on named tracks."""

    def __init__(self, path):
        self.text = path.read_text()
        content = json.loads(self.text)
        self.dropped = content["otherData"]["dropped_spans"]
        events = content["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.ranks = {event["pid"] for event in events}
        self.tracks = {name: [] for name in names.values()}
        for event in events:
            if event["ph"] == "X":
                self.tracks[names[event["tid"]]].append((event["name"], event["ts"], event["ts"] + event["dur"]))


class TracedRun(FlowTest):
    def run_of_steps(self, **options):
        """45 steps in eight epochs, unless it is asked for others."""
        defaults = {"epochs": None, "steps": 45, "batch_size": 8, "patience": 100, "threads": 1, "loader_threads": 2}
        return self.train(trace=self.folder / "traces/trace.json", **{**defaults, **options})


class TraceTest(TracedRun):
    def assert_steps(self, trace):
        steps = {name: (begin, end) for name, begin, end in trace.tracks["steps"] if name.startswith("step ")}
        self.assertEqual(set(steps), {f"step {number}" for number in range(FIRST, LAST + 1)})
        phases = [span for span in trace.tracks["steps"] if span[0] not in steps]
        self.assertLessEqual({name for name, _, _ in phases}, PHASES)
        for begin, end in steps.values():
            inside = {name for name, from_, to in phases if begin <= from_ and to <= end + 0.01}
            self.assertEqual(inside, PHASES)

    def test_of_one_rank(self):
        result = self.run_of_steps()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(self.folder / "traces"), ["trace.json"])
        trace = Trace(self.folder / "traces/trace.json")
        self.assertEqual((trace.ranks, trace.dropped), ({0}, 0))
        computing = {name for name in trace.tracks if not re.match(r"(loader|reading) thread \d+$", name)}
        self.assertEqual(computing, {"steps", "device"})
        self.assert_steps(trace)
        self.assertEqual({name for name, _, _ in trace.tracks["device"]}, {"forward", "backward", "optimizer"})
        loaded = [span for name, spans in trace.tracks.items() if name.startswith("loader thread") for span in spans]
        self.assertGreater(len(loaded), 8 * (LAST - FIRST) // 2)
        self.assertEqual({name for name, _, _ in loaded}, {"load an image"})
        self.assertNotIn("trace", (self.folder / "logs/repeat.yaml").read_text())

    def test_every_rank_has_its_own(self):
        result = self.run_of_steps(ranks=2, batch_size=4, loader_threads=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder / "traces")), ["trace-rank1.json", "trace.json"])
        for rank, name in enumerate(("trace.json", "trace-rank1.json")):
            trace = Trace(self.folder / "traces" / name)
            self.assertEqual(trace.ranks, {rank})
            self.assert_steps(trace)
            sums = trace.tracks["all-reduces"]
            self.assertEqual({name for name, _, _ in sums}, {"gradient all-reduce"})
            self.assertGreaterEqual(len(sums), LAST - FIRST)
            ends = [0] + [end for _, _, end in sums]
            self.assertTrue(all(begin >= end - 0.01 for (_, begin, _), end in zip(sums, ends)), "sums follow each other")

    def test_a_run_that_ends_before_has_none(self):
        result = self.run_of_steps(steps=None, epochs=1)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(self.folder / "traces"), [])

    def assert_fails_before_training(self, place, *words):
        result = self.train(trace=place)
        self.assert_fails(result, 3, 160, *words)
        self.assertEqual(result.stderr.count("error: "), 1, result.stderr)
        self.assertNotIn("Epoch 1,", result.stdout)

    def test_where_it_cannot_be_written(self):
        self.assert_fails_before_training("/proc/trace.json", "/proc/trace.json")
        (self.folder / "folder").mkdir()
        self.assert_fails_before_training(self.folder / "folder", "folder")
        self.assertEqual(os.listdir(self.folder / "folder"), [])

    def test_full_folder(self):
        place = self.folder / "full"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs needs more rights")
        self.addCleanup(subprocess.run, ["umount", str(place)])
        self.assert_fails_before_training(place / "trace.json", "trace.json", "space")
        self.assertEqual(os.listdir(place), [])


class ViewerTest(BrowserCase, TracedRun):
    def test_a_browser_parses_it(self):
        self.assertEqual(self.run_of_steps().returncode, 0)
        path = self.folder / "traces/trace.json"
        self.browser.open(path)
        spans = self.browser.evaluate("JSON.parse(document.querySelector('pre').textContent).traceEvents"
                                      ".filter(event => event.ph == 'X' && event.dur >= 0).length")
        self.assertEqual(spans, Trace(path).text.count('"ph":"X"'))
        self.assertGreater(spans, 6 * (LAST - FIRST))


if __name__ == "__main__":
    main()
