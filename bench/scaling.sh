#!/usr/bin/env bash
# Two ranks of one thread against one rank of two threads, at the same global batch: images/s, the share of the job that is
# neither training nor validation, the share that waited for images, and how much of the gradient all-reduce overlapped with backward.
#
#   bench/scaling.sh TRAIN_DATA VALID_DATA [RUNS [EPOCHS [OPTIONS OF TRAIN...]]]
#
# Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
train=$1 valid=$2 runs=${3:-3} epochs=${4:-10}
options=("${@:5}")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kiln=$root/build/release/kiln
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

train_with() { # NAME OPTIONS...
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs "$epochs" --patience "$epochs" \
    --learning-rate 0.05 --lr-scaling none --print-freq 1000000 "${options[@]}" "${@:2}" >/dev/null
  mv "$work/model/training.json" "$work/$1.json"
  rm -r "$work/model"
}
for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  train_with "one-$run" --threads 2 --batch-size 64
  train_with "two-$run" --ranks 2 --threads 1 --batch-size 32
done
python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys

def read(pattern):
    return [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(pattern))]

def total(run, key):
    return sum(epoch[key] for epoch in run["epochs"])

def show(name, runs):
    speed = [run["epochs"][-1]["train_images_per_second"] for run in runs]
    outside = [1 - (total(run, "train_seconds") + total(run, "valid_seconds")) / run["total_seconds"] for run in runs]
    waiting = [total(run, "data_wait_seconds") / run["total_seconds"] for run in runs]
    print(f"{name:20}{statistics.median(speed):8.1f} images/s ({min(speed):.1f} to {max(speed):.1f}), of the job "
          f"{100 * statistics.median(outside):.1f} % outside training and validation, "
          f"{100 * statistics.median(waiting):.1f} % waiting for images")
    return statistics.median(speed)

one, two = read("one-*.json"), read("two-*.json")
ratio = show("1 rank x 2 threads", one), show("2 ranks x 1 thread", two)
hidden = [1 - sum(e["communication"]["waiting_seconds"] for e in run["epochs"]) /
          sum(e["communication"]["summing_seconds"] for e in run["epochs"]) for run in two]
print(f"2 ranks are {ratio[1] / ratio[0]:.2f} x of 1 rank; {100 * statistics.median(hidden):.0f} % of the gradient sums "
      f"({100 * min(hidden):.0f} to {100 * max(hidden):.0f}) ran behind backward")
PYTHON
