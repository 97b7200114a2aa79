#!/usr/bin/env bash
# What checkpoints cost: images/s of one rank with a checkpoint every 5 seconds and without, in turn.
#
#   bench/checkpoint.sh KILN TRAIN_DATA VALID_DATA [RUNS [EPOCHS [OPTIONS OF TRAIN...]]]
#
# The first epoch of a run is left out. Leave the machine alone meanwhile. KILN_CHECKPOINTS is where they are written
# (default: a folder of the system's temporary one).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 train=$2 valid=$3 runs=${4:-5} epochs=${5:-3}
options=("${@:6}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checkpoints=${KILN_CHECKPOINTS:-$work}/checkpoints
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

train_as() { # NAME OPTIONS...
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs "$epochs" --patience "$epochs" \
    --batch-size 64 --learning-rate 0.05 "${options[@]}" "${@:2}" >"$work/output" || { cat "$work/output"; exit 1; }
  mv "$work/model/training.json" "$work/$1.json"
  rm -rf "$work/model" "$checkpoints"
}
for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  train_as "without-$run"
  train_as "with-$run" --checkpoint-path "$checkpoints" --checkpoint-every 5s
done
python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys

def rates(how):
    runs = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(f"{how}-*.json"))]
    return [statistics.mean(epoch["train_images_per_second"] for epoch in run["epochs"][1:]) for run in runs]

without, with_checkpoints = rates("without"), rates("with")
for how, speed in (("without", without), ("with", with_checkpoints)):
    print(f"{how:>8}: {statistics.median(speed):8.1f} images/s ({min(speed):.1f} to {max(speed):.1f})")
ratios = sorted(b / a for a, b in zip(without, with_checkpoints))
print(f"with / without: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) over {len(ratios)} pairs")
PYTHON
