#!/usr/bin/env bash
# Two builds of kiln in turn: images/s of training with one rank of two threads and with two ranks of one thread, at the same
# global batch. For changes that must not cost speed.
#
#   bench/old_and_new.sh OLD NEW TRAIN_DATA VALID_DATA [RUNS [EPOCHS [OPTIONS OF TRAIN...]]]
#
# The first epoch of a run is left out. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 4 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
old=$1 new=$2 train=$3 valid=$4 runs=${5:-5} epochs=${6:-3}
options=("${@:7}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$old" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

train_with() { # PROGRAM NAME OPTIONS...
  "$1" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs "$epochs" --patience "$epochs" \
    --learning-rate 0.05 --lr-scaling none "${options[@]}" "${@:3}" >/dev/null
  mv "$work/model/training.json" "$work/$2.json"
  rm -r "$work/model"
}
for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  train_with "$old" "old-1-$run" --threads 2 --batch-size 64
  train_with "$new" "new-1-$run" --threads 2 --batch-size 64
  train_with "$old" "old-2-$run" --ranks 2 --threads 1 --batch-size 32
  train_with "$new" "new-2-$run" --ranks 2 --threads 1 --batch-size 32
done
python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys

def rates(build, ranks):
    runs = [json.loads(path.read_text()) for path in sorted(pathlib.Path(sys.argv[1]).glob(f"{build}-{ranks}-*.json"))]
    return [statistics.mean(epoch["train_images_per_second"] for epoch in run["epochs"][1:]) for run in runs]

for ranks in (1, 2):
    old, new = rates("old", ranks), rates("new", ranks)
    for build, speed in (("old", old), ("new", new)):
        print(f"{ranks} rank(s), {build}: {statistics.median(speed):8.1f} images/s ({min(speed):.1f} to {max(speed):.1f})")
    ratios = sorted(b / a for a, b in zip(old, new))
    print(f"{ranks} rank(s), new / old: {statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) over {len(ratios)} pairs")
PYTHON
