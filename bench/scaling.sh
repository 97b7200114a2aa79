#!/usr/bin/env bash
# Two ranks of one thread beside one rank of two threads, at the same global batch: images/s, the share of the epoch that is
# not training or validation, and how long gradients were waited for.
#
#   bench/scaling.sh TRAIN_DATA VALID_DATA [RUNS]
#
# Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
train=$1 valid=$2 runs=${3:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kiln=$root/build/release/kiln
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

train_with() { # NAME OPTIONS...
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs 3 --learning-rate 0.05 \
    --lr-scaling none --print-freq 1000000 "${@:2}" >/dev/null
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

def rates(pattern):
    runs = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(pattern))]
    outside = [1 - sum(epoch["train_seconds"] + epoch["valid_seconds"] for epoch in run["epochs"]) / run["total_seconds"]
               for run in runs]
    return [run["epochs"][-1]["train_images_per_second"] for run in runs], outside

one, two = rates("one-*.json"), rates("two-*.json")
for name, (speed, outside) in (("1 rank x 2 threads", one), ("2 ranks x 1 thread", two)):
    print(f"{name:20}{statistics.median(speed):8.1f} images/s ({min(speed):.1f} to {max(speed):.1f}), "
          f"{100 * statistics.median(outside):.1f} % of the job outside training and validation")
print(f"2 ranks are {statistics.median(two[0]) / statistics.median(one[0]):.2f} x of 1 rank")
PYTHON
