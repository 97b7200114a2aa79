"""What two training runs left behind, compared: weights to the bit, records field by field. Standard library only."""
import itertools
import json
import pathlib
import struct
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "flow"))
import weight_files  # noqa: E402

# The values under these keys are not compared, for the reason beside them. The keys have to be there all the same, and
# to hold the same kind of value (a number, a text, an object of the same keys, nothing).
NOT_COMPARED = {
    "times": ("time", "started", "seconds", "batch_seconds", "epoch_seconds", "elapsed_seconds", "seconds_left",
              "train_seconds", "valid_seconds", "data_wait_seconds", "start_to_first_step_seconds", "total_seconds",
              "gradient_sums", "communication", "checkpoint_time", "last_seen",
              "Seconds/training", "Seconds/validation", "Step milliseconds/data wait", "Step milliseconds/forward",
              "Step milliseconds/backward", "Step milliseconds/communication", "Step milliseconds/optimizer"),
    "rates": ("batch_images_per_second", "epoch_images_per_second", "average_images_per_second",
              "train_images_per_second", "data_wait_share", "cpu_share", "Step/images per second", "Train images per second",
              "Rate/images per second of the whole epoch"),
    "memory and load": ("peak_memory_bytes", "peak_device_bytes", "Memory/peak MB", "Memory/GPU peak MB", "gpu",
                        "GPU/utilisation percent", "GPU/utilization percent", "GPU/power watts",
                        "CPU/percent of compute threads"),
    "wording": ("text", "fault", "failure", "Message", "plan", "reason", "replaced"),
    "the program's own build": ("kiln", "commit"),
}
LINES_NOT_COMPARED = "time_created:"  # of model_spec.yaml
KEYS_NOT_COMPARED = {key for keys in NOT_COMPARED.values() for key in keys}

WEIGHT_READERS = {"model": weight_files.read_zip}
RECORDS = ("training.json",)


def kind_of(value):
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


def read_safetensors(path):
    content = path.read_bytes()
    begin = 8 + struct.unpack("<Q", content[:8])[0]
    kinds = {kind: name for name, kind in weight_files.SAFETENSORS_TYPES.items()}
    state = {}
    for name, entry in json.loads(content[8:begin]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            state[name] = weight_files.Tensor(kinds[entry["dtype"]], tuple(entry["shape"]),
                                              content[begin + first:begin + last])
    return state


def events_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def name_of(event):
    return " ".join(str(event[key]) for key in ("event", "epoch", "step") if key in event)


def first_difference(one, other):
    """The first byte that differs, of two of one length that differ somewhere."""
    begin, end = 0, len(one)
    while end - begin > 1:
        middle = (begin + end) // 2
        begin, end = (middle, end) if one[begin:middle] == other[begin:middle] else (begin, middle)
    return begin


def number_at(data, index, kind):
    width = weight_files.WIDTHS[kind]
    return struct.unpack({"Float": "<f", "Long": "<q"}[kind], data[index * width:(index + 1) * width])[0]


class Comparison:
    """Differences as lines that name file, event, key and both values, and how much was compared."""

    def __init__(self, old, new):
        self.old, self.new = old, new  # the folders of the runs
        self.differences, self.num_tensors, self.num_fields, self.num_events = [], 0, 0, 0

    def differ(self, where, key, old, new):
        self.differences.append(f"{where}{key and ': '}{key}: old {old}, new {new}")

    def compare_values(self, where, old, new, path=(), only_kinds=False):
        """Every field of `old`; `new` may have more."""
        key = ".".join(path)
        only_kinds = only_kinds or (bool(path) and path[-1] in KEYS_NOT_COMPARED)
        if kind_of(old) != kind_of(new):
            self.differ(where, key, f"{old!r:.200}", f"{new!r:.200}")
        elif isinstance(old, dict):
            for name, value in old.items():
                if name in new:
                    self.compare_values(where, value, new[name], (*path, name), only_kinds)
                else:
                    self.differ(where, ".".join((*path, name)), f"{value!r:.200}", "lacks it")
        elif isinstance(old, list):
            if len(old) != len(new):
                self.differ(where, key, f"has {len(old)} entries", f"has {len(new)}")
            for number, (one, other) in enumerate(zip(old, new)):
                self.compare_values(where, one, other, (*path, str(number)), only_kinds)
        elif not only_kinds:
            self.num_fields += 1
            # 1 and 1.0 differ in the file, and a NaN equals itself there.
            if repr(old) != repr(new):
                self.differ(where, key, f"{old!r:.200}", f"{new!r:.200}")

    def compare_record(self, name):
        """A file with one JSON object."""
        if self.exists(name):
            self.compare_values(name, *(json.loads((run / name).read_text(encoding="utf-8"))
                                        for run in (self.old, self.new)))

    def exists(self, name):
        there = [(run / name).exists() for run in (self.old, self.new)]
        if there[0] != there[1]:
            self.differ(name, "", *("has it" if yes else "lacks it" for yes in there))
        return all(there)

    def compare_events(self, name, last_epoch_is_cut):
        """metrics.jsonl; `last_epoch_is_cut`: a signal came at some step, so that either run may have more of them.
        Returns the old run's events."""
        if not self.exists(name):
            return []
        events, warnings = [], []
        for run in (self.old, self.new):
            lines = events_of(run / name)
            warnings.append(sum(event["event"] == "warning" for event in lines))
            events.append({name_of(event): event for event in lines if event["event"] != "warning"})
        if warnings[0] > warnings[1]:  # a newer program may warn of more
            self.differ(name, "", f"has {warnings[0]} warnings", f"has {warnings[1]}")
        whole = 1 + max((event["epoch"] for event in events[0].values() if event["event"] == "epoch"), default=0)
        shared = [key for key in events[0] if key in events[1]]
        for one, other, lacks in ((0, 1, "new lacks it"), (1, 0, "old lacks it")):
            for key, event in events[one].items():
                cut = last_epoch_is_cut and event["event"] == "step" and event["epoch"] == whole
                if key not in events[other] and not cut:
                    self.differences.append(f"{name}: {key}: {lacks}")
        if shared != [key for key in events[1] if key in events[0]]:
            self.differ(name, "order of events", shared, [key for key in events[1] if key in events[0]])
        for key in shared:
            self.num_events += 1
            self.compare_values(f"{name}: {key}", events[0][key], events[1][key])
        return list(events[0].values())

    def compare_weights(self, name, read):
        states = [read(run / name) for run in (self.old, self.new)]
        for key in sorted(states[0].keys() ^ states[1].keys()):
            self.differ(name, key, *("has it" if key in state else "lacks it" for state in states))
        for key in states[0].keys() & states[1].keys():
            self.num_tensors += 1
            old, new = states[0][key], states[1][key]
            if (old.kind, old.shape) != (new.kind, new.shape):
                self.differ(name, key, f"{old.kind}{old.shape}", f"{new.kind}{new.shape}")
            elif old.data != new.data:
                width = weight_files.WIDTHS[old.kind]
                at = first_difference(old.data, new.data) // width
                self.differ(name, f"{key}[{at}]", *(number_at(state.data, at, old.kind) for state in (old, new)))

    def compare_texts(self, name):
        lines = [[line for line in (run / name).read_text(encoding="utf-8").splitlines()
                  if not line.startswith(LINES_NOT_COMPARED)] for run in (self.old, self.new)]
        for number, (old, new) in enumerate(itertools.zip_longest(*lines), start=1):
            self.num_fields += 1
            if old != new:
                self.differ(name, f"line {number}", repr(old), repr(new))

    def compare_bytes(self, name):
        self.num_fields += 1
        old, new = ((run / name).read_bytes() for run in (self.old, self.new))
        if len(old) != len(new):
            self.differ(name, "size", len(old), len(new))
        elif old != new:
            at = first_difference(old, new)
            self.differ(name, f"byte {at}", old[at], new[at])

    def compare_model(self, name):
        """A ModelDirectory: every file that the old run wrote."""
        if not self.exists(name):
            return
        for path in sorted((self.old / name).iterdir()):
            file = f"{name}/{path.name}"
            if not self.exists(file):
                continue
            if path.suffix == ".safetensors" or path.name in WEIGHT_READERS:
                self.compare_weights(file, WEIGHT_READERS.get(path.name, read_safetensors))
            elif path.name in RECORDS:
                self.compare_record(file)
            elif path.suffix == ".bin":
                self.compare_bytes(file)
            else:
                self.compare_texts(file)
