#!/usr/bin/env bash
# kiln score against its own parts, the bare forward pass and the bare loader, and against Python programs that do the same with
# torchvision and ONNX Runtime: one model, the same images, batches and threads, in turn, several times.
#
#   bench/score.sh IMAGES [RUNS [NETWORK [SIZE [BATCH]]]]
#
# IMAGES has a folder of images for each class. ResNet-18, 224 pixels and batches of 64 unless given. Needs the Python of
# tests/parity (environment/install.sh); KILN_ONNX, where set, is a folder with the packages onnxruntime, onnx and onnxscript
# (pip install --target). One table: medians, spreads, ratios within each run, and whether all gave the same answers. On a CPU
# loader and forward pass share the processors, so at best an image takes the sum of both. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
images=$(realpath "$1") runs=${2:-3} network=${3:-resnet18} size=${4:-224} batch=${5:-64}
root=$(cd "$(dirname "$0")/.." && pwd)
kiln=${KILN:-$root/build/release/kiln}
bench=${KILN_BENCH:-$(dirname "$kiln")/kiln_bench}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
threads=$(nproc)
python=(env "PYTHONPATH=$torch:$root/.deps/parity${KILN_ONNX:+:$KILN_ONNX}" python3)
model=$work/model

kiln_score() { # OUT
  python3 "$root/bench/measure.py" "$1" "$kiln" score --trained-model-path "$model" --data-path "$images" \
    --output-path "$work/kiln.csv" --raw --device cpu --threads "$threads" --batch-size "$batch"
}
kiln_forward() { # OUT
  "$bench" step --inference --model-name "$network" --size "$size" --batch-size "$batch" --classes "$classes" \
    --threads "$threads" --device cpu >"$1"
}
kiln_loader() { # OUT
  "$bench" loader --data "$images" --size "$size" --augment none --batch-size "$batch" --threads "$threads" \
    --passes 1 2>/dev/null >"$1"
}
peer() { # OUT SCRIPT OPTIONS...
  python3 "$root/bench/measure.py" "$1" "${python[@]}" "$root/bench/$2" "$model" --threads "$threads" \
    --batch-size "$batch" "${@:3}"
}

source "$root/bench/trained_model.sh"
make_trained_model
classes=$(find "$work/few" -mindepth 1 -maxdepth 1 | wc -l)

# Variants of the peers: name, script and options.
peers=("torchvision, 0 workers;score_torchvision.py;--workers 0"
       "torchvision, $threads workers;score_torchvision.py;--workers $threads"
       "torchvision, channels_last;score_torchvision.py;--workers $threads --channels-last")
if "${python[@]}" -c 'import onnxruntime, onnx, onnxscript' 2>/dev/null; then
  peers+=("ONNX Runtime, 0 workers;score_onnx.py;--workers 0 --network $work/model.onnx"
          "ONNX Runtime, $threads workers;score_onnx.py;--workers $threads --network $work/model.onnx")
  peer "$work/export.json" score_onnx.py --network "$work/model.onnx" --forward 1
else
  echo "SKIPPED: ONNX Runtime, which is not installed (KILN_ONNX)" >&2
fi

kiln_score "$work/warm.json" # the page cache
for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  kiln_score "$work/kiln.$run.json"
  kiln_forward "$work/forward.$run.json"
  kiln_loader "$work/loader.$run.json"
  for number in "${!peers[@]}"; do
    IFS=';' read -r name script options <<<"${peers[number]}"
    read -ra words <<<"$options"
    echo "$name" >"$work/peer-$number.name"
    peer "$work/peer-$number.$run.json" "$script" "$images" "$work/peer-$number.csv" "${words[@]}"
    case $name in
      *"$threads workers" | *channels_last)
        peer "$work/peer-$number-forward.$run.json" "$script" --forward 20 "${words[@]}" ;;
    esac
  done
done
echo "$network, $size pixels, batches of $batch, $threads threads, $runs runs"
python3 "$root/bench/score_table.py" "$work"
