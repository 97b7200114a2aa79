"""The table of bench/train.sh: medians with their spread, and what kiln's are in terms of each peer's."""
import json
import pathlib
import statistics
import sys

FIELDS = {"images_per_second": ("images/s, last epoch", 1), "total_seconds": ("job, s", 1),
          "peak_memory_bytes": ("peak memory, MB", 1e6)}


def read(pattern):
    return [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(pattern))]


def kiln_run(training):
    return {"images_per_second": training["epochs"][-1]["train_images_per_second"],
            "total_seconds": training["total_seconds"], "peak_memory_bytes": training["peak_memory_bytes"]}


runs = {"kiln": [kiln_run(training) for training in read("kiln-*.json")],
        "peer, 0 workers": read("peer-0-*.json"), "peer, 2 workers": read("peer-2-*.json")}
for field, (title, unit) in FIELDS.items():
    kiln_median = statistics.median(run[field] for run in runs["kiln"])
    for name, records in runs.items():
        values = [record[field] / unit for record in records]
        ratio = kiln_median / unit / statistics.median(values)
        print(f"{title:24}{name:18}{statistics.median(values):10.1f}  ({min(values):.1f} to {max(values):.1f})"
              f"   kiln is {ratio:.2f} x this")
firsts = [training["start_to_first_step_seconds"] for training in read("kiln-*.json")]
print(f"kiln: process start to the end of the first step {statistics.median(firsts):.2f} s")
