#!/usr/bin/env bash
# kiln train beside a plain PyTorch trainer: the same images, options and threads, one after the other, several times.
#
#   bench/train.sh PEER TRAIN_DATA VALID_DATA [RUNS]
#
# PEER is a Python trainer that takes the options below and prints a JSON line an epoch and one with total_s. Needs the
# Python of tests/parity (environment/install.sh). One JSON line a run, then a table of medians, spreads and ratios.
# Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
peer=$1 train=$2 valid=$3 runs=${4:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
kiln=$root/build/release/kiln
options=(--epochs 2 --batch-size 64 --learning-rate 0.05)

"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null
for run in $(seq "$runs"); do
  rm -rf "$work/model"
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path "$work/model" --log-path "$work/logs" --threads 2 --device cpu --print-freq 1000000 \
    "${options[@]}" >/dev/null
  cp "$work/model/training.json" "$work/kiln-$run.json"
  for workers in 0 2; do
    PYTHONPATH=$torch:$root/.deps/parity python3 "$root/bench/measure.py" "$work/peer-$workers-$run.json" \
      python3 "$peer" --train-data "$train" --valid-data "$valid" --threads 2 --workers "$workers" "${options[@]}"
  done
done
python3 "$root/bench/table.py" "$work"
