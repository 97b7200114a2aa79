"""Runs that are stopped and started again by the same command, and what they leave beside an undisturbed one."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
from compare_runs import KEYS_NOT_COMPARED, Comparison  # noqa: E402

from flow import KILN  # noqa: E402

ENVIRONMENT = {"OMP_WAIT_POLICY": "passive", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PATIENCE = 300


class Job:
    """`kiln train` in a folder of its own, with paths relative to it, so that two of them have equal options: by default two
    epochs of four steps."""

    def __init__(self, folder, untrained, data, ranks=1, **options):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        for name, target in (("untrained", untrained), ("data", data)):
            if not (folder / name).exists():
                (folder / name).symlink_to(target)
        pairs = {"untrained_model_path": "untrained", "train_data_path": "data/train", "valid_data_path": "data/val",
                 "trained_model_path": "model", "log_path": "logs", "checkpoint_path": "checkpoints", "device": "cpu",
                 "checkpoint_every": "3steps", "epochs": 2, "batch_size": 12, "threads": 1, "print_freq": 1, "patience": 100, **options}
        if ranks > 1:
            pairs["ranks"] = ranks
        self.words = [KILN, "train"] + [word for name, value in pairs.items() if value is not None
                                        for word in ("--" + name.replace("_", "-"), str(value))]

    def start(self, *more):
        """In a session of its own, so that the whole group can be killed."""
        return subprocess.Popen([*self.words, *map(str, more)], cwd=self.folder, env={**os.environ, **ENVIRONMENT},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, *more):
        """Until it ends: exit code and output."""
        process = self.start(*more)
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output

    def events(self, kind=None):
        for name in ("metrics.jsonl.next", "metrics.jsonl"):
            if (self.folder / "logs" / name).exists():
                lines = (self.folder / "logs" / name).read_text().splitlines(keepends=True)
                events = [json.loads(line) for line in lines if line.endswith("\n")]
                return [event for event in events if kind is None or event["event"] == kind]
        return []

    def num_checkpoints(self):
        return len(list(self.folder.glob("checkpoints/checkpoint-*/checkpoint.json")))

    def stop_after(self, steps, with_signal=signal.SIGTERM, checkpointed=False):
        """Starts it, and sends the signal once its record has so many steps, and if asked for once there is a checkpoint: to
        the program, or to all of the group for SIGKILL. That is what ends it."""
        process = self.start()
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end and (
                len(self.events("step")) < steps or (checkpointed and not self.num_checkpoints())):
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL) if with_signal == signal.SIGKILL else process.send_signal(with_signal)
        output, _ = process.communicate(timeout=PATIENCE)
        expected = -with_signal if with_signal == signal.SIGKILL else 128 + with_signal
        assert process.returncode == expected, f"exit code {process.returncode}, not {expected}: {output}"


def assert_refused(test, job, *names, exit_code=1):
    """The job is refused, and these are named; its output."""
    code, output = job.run()
    test.assertEqual(code, exit_code, output)
    test.assert_names(output, *names)
    return output


def assert_nothing_to_do(test, job):
    """Started once more, the job that has ended leaves its model alone."""
    before = (job.folder / "model/_meta.yaml").stat().st_mtime_ns
    code, output = job.run()
    test.assertEqual(code, 0, output)
    test.assertEqual((job.folder / "model/_meta.yaml").stat().st_mtime_ns, before)


def rows(job):
    with open(job.folder / "logs/epochs.csv", newline="") as file:
        return [{name: value for name, value in row.items() if name not in KEYS_NOT_COMPARED}
                for row in csv.DictReader(file)]


def is_about_interruptions(event):
    return event["event"] == "resume" or (event["event"] == "warning" and "checkpoint" in event["text"].lower())


def differences(straight, resumed):
    """What differs between two ended runs but times, rates, and what is told of interruptions and checkpoints."""
    comparison = Comparison(straight.folder, resumed.folder)
    if (straight.folder / "model/model").read_bytes() != (resumed.folder / "model/model").read_bytes():
        comparison.differ("model", "", "weights", "other weights")
    if (straight.folder / "model/seen_images.bin").read_bytes() != (resumed.folder / "model/seen_images.bin").read_bytes():
        comparison.differ("model", "", "seen images", "others")
    events = [[event for event in job.events() if not is_about_interruptions(event)] for job in (straight, resumed)]
    names = [[(event["event"], event.get("epoch"), event.get("step")) for event in some] for some in events]
    if names[0] != names[1]:
        comparison.differ("metrics.jsonl", "events", names[0], names[1])
    for one, other in zip(*events):
        comparison.compare_values("metrics.jsonl", one, other)
    comparison.compare_values("epochs.csv", rows(straight), rows(resumed))
    comparison.compare_record("model/training.json")
    return comparison.differences
