"""The table of bench/train.sh: medians with their spread, and what kiln's are in terms of each peer's."""
import json
import pathlib
import statistics
import sys

folder = pathlib.Path(sys.argv[1])


def read(pattern):
    return [json.loads(path.read_text()) for path in sorted(folder.glob(pattern))]


def kiln_run(training, process):
    return {"images_per_second": training["epochs"][-1]["train_images_per_second"],
            "total_seconds": process["total_seconds"], "peak_memory_bytes": process["peak_memory_bytes"]}


def step_rates(name):
    lines = [json.loads(line) for path in sorted(folder.glob("step-*.jsonl")) for line in path.read_text().splitlines()]
    return [line["img_per_s"] for line in lines if line["step"] == name]


def table(title, unit, rows):
    """rows: (name, values), kiln's first."""
    ours = statistics.median(rows[0][1])
    for name, values in rows:
        if not values:
            continue
        middle = statistics.median(values)
        print(f"{title:32}{name:26}{middle / unit:9.2f}  ({min(values) / unit:.2f} to {max(values) / unit:.2f})"
              f"  kiln is {ours / middle:.2f} x this")


runs = {"kiln": list(map(kiln_run, read("kiln-*.json"), read("process-kiln-*.json"))), "Python trainer, 0 workers": read("peer-0-*.json"),
        "Python trainer, 2 workers": read("peer-2-*.json"), "original": read("original-*.json")}


def column(field):
    return [(name, [record[field] for record in records]) for name, records in runs.items()]


table("images/s in the last epoch", 1, column("images_per_second") + [
    ("bare step, channels_last", step_rates("channels_last+fused")), ("bare step, as is", step_rates("default"))])
table("whole job, s", 1, column("total_seconds"))
table("peak memory, MB", 1e6, column("peak_memory_bytes"))
table("process start to first step, s", 1, [
    ("kiln", [training["start_to_first_step_seconds"] for training in read("first-kiln-*.json")]),
    ("Python trainer, 0 workers", [record["first_epoch_seconds"] for record in read("first-peer-*.json")])])
