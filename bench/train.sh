#!/usr/bin/env bash
# kiln train against Python trainers: the same images, options and threads, one after the other, several times.
#
#   bench/train.sh PEERS TRAIN_DATA VALID_DATA [RUNS]
#
# PEERS is a folder with torchvision_train.py (one JSON line per epoch) and step_rates.py (the bare training step on random
# data). Needs the Python of tests/parity (environment/install.sh). KILN_ORIGINAL, where set, is the Python of an environment
# with the component that kiln replaces; it is measured too. One table: medians, spreads and ratios. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
peers=$1 train=$(realpath "$2") valid=$(realpath "$3") runs=${4:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
kiln=$root/build/release/kiln
batch=64
options=(--epochs 2 --batch-size $batch --learning-rate 0.05)
quick=(--epochs 1 --batch-size $batch --learning-rate 0.05)
python=(env "PYTHONPATH=$torch:$root/.deps/parity" python3)

train_kiln() { # NAME TRAIN VALID OPTIONS...
  python3 "$root/bench/measure.py" "$work/process-$1.json" \
    "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$2" --valid-data-path "$3" \
    --trained-model-path "$work/model" --log-path "$work/logs" --threads 2 --device cpu --print-freq 1000000 \
    "${@:4}"
  mv "$work/model/training.json" "$work/$1.json"
  rm -r "$work/model"
}
train_peer() { # NAME WORKERS TRAIN VALID OPTIONS...
  python3 "$root/bench/measure.py" "$work/$1.json" "${python[@]}" "$peers/torchvision_train.py" \
    --train-data "$3" --valid-data "$4" --threads 2 --workers "$2" "${@:5}"
}
train_original() { # NAME
  OMP_NUM_THREADS=2 python3 "$root/bench/measure.py" "$work/$1.json" "$KILN_ORIGINAL" \
    -m azureml.designer.modules.dl.pytorch.train.train_pytorch_model --untrained-model-path "$work/untrained" \
    --train-data-path "$work/train-directory" --valid-data-path "$work/valid-directory" \
    --trained-model-path "$work/original-model" --print-freq 1000000 "${options[@]}"
}
# One batch of training images and one validation image: what is left is the start.
make_one_batch() { # FROM TO COUNT
  (cd "$1" && find . -type f | sort | awk -v n="$3" '{ a[NR] = $0 } END { for (i = 0; i < n; i++) print a[int(i * NR / n) + 1] }') |
    while read -r file; do mkdir -p "$2/$(dirname "$file")" && ln -s "$1/$file" "$2/$file"; done
}

"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null
make_one_batch "$train" "$work/one/train" $batch
make_one_batch "$valid" "$work/one/val" 10
if [ -n "${KILN_ORIGINAL:-}" ]; then
  "$kiln" convert --input-path "$train" --output-path "$work/train-directory" >/dev/null
  "$kiln" convert --input-path "$valid" --output-path "$work/valid-directory" >/dev/null
fi
for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  train_kiln "kiln-$run" "$train" "$valid" "${options[@]}"
  train_peer "peer-0-$run" 0 "$train" "$valid" "${options[@]}"
  train_peer "peer-2-$run" 2 "$train" "$valid" "${options[@]}"
  train_kiln "first-kiln-$run" "$work/one/train" "$work/one/val" "${quick[@]}"
  train_peer "first-peer-$run" 0 "$work/one/train" "$work/one/val" "${quick[@]}"
  "${python[@]}" "$peers/step_rates.py" --model resnet18 --size 32 --batch-size $batch --threads 2 >"$work/step-$run.jsonl"
  if [ -n "${KILN_ORIGINAL:-}" ]; then train_original "original-$run"; fi
done
python3 "$root/bench/table.py" "$work"
