#!/usr/bin/env bash
# The training step of kiln against that of PyTorch with torchvision's networks, on random images, in turn.
#
#   bench/step.sh PEERS [RUNS [SIZE [BATCH [STEPS [NETWORK...]]]]]
#
# PEERS is a folder with step_rates.py (JSON lines with "img_per_s": as its users write it, and tuned). Needs the Python of
# tests/parity (environment/install.sh). Without networks all thirteen, at 64 pixels and batches of 16. KILN_PRECISION is fp32
# (default) or bf16; with KILN_COMPILE=1 torch.compile takes its turn, too. One table: medians, the spread of the ratio to the
# fastest peer, the share of the machine's arithmetic, and on a CPU where kiln's time goes. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
peers=$1 runs=${2:-3} size=${3:-64} batch=${4:-16} steps=${5:-10}
networks=("${@:6}")
precision=${KILN_PRECISION:-fp32}
root=$(cd "$(dirname "$0")/.." && pwd)
bench=${KILN_BENCH:-$root/build/release/kiln_bench}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ ${#networks[@]} -gt 0 ] || networks=(resnet{18,34,50,101,152} resnext50_32x4d resnext101_32x8d wide_resnet{50,101}_2
  densenet{121,161,169,201})
threads=$(nproc)

for run in $(seq "$runs"); do
  for network in "${networks[@]}"; do
    echo "run $run of $runs: $network" >&2
    "$bench" step --model-name "$network" --size "$size" --batch-size "$batch" --classes 10 --steps "$steps" \
      --threads "$threads" --precision "$precision" >"$work/kiln-$network-$run.json"
    for form in "" ${KILN_COMPILE:+--compile}; do
      PYTHONPATH=$torch:$root/.deps/parity python3 "$peers/step_rates.py" --model "$network" --size "$size" --batch-size "$batch" \
        --steps "$steps" --threads "$threads" --precision "$precision" $form >>"$work/peer-$network-$run.jsonl"
    done
  done
done
python3 - "$work" "$runs" "$size" "$batch" "${networks[@]}" <<'PYTHON'
import json, pathlib, statistics, sys

work, runs = pathlib.Path(sys.argv[1]), range(1, int(sys.argv[2]) + 1)
print(f"{sys.argv[3]} pixels, batches of {sys.argv[4]}, images/s; shares of kiln's step")
print(f"{'network':<17}{'kiln':>8}{'PyTorch':>9}{'tuned':>8}{'compiled':>9}  kiln / fastest         arithmetic  shares")
for network in sys.argv[5:]:
    ours = [json.loads((work / f"kiln-{network}-{run}.json").read_text()) for run in runs]
    peers = [[json.loads(line)["img_per_s"] for line in (work / f"peer-{network}-{run}.jsonl").read_text().splitlines()]
             for run in runs]
    ratios = [one["images_per_second"] / max(peer) for one, peer in zip(ours, peers)]
    median = sorted(ours, key=lambda one: one["images_per_second"])[len(ours) // 2]
    shares = ", ".join(f"{name} {share:.0%}" for name, share in median.get("share_of_step", {}).items() if share >= 0.03)
    print(f"{network:<17}{median['images_per_second']:8.1f}{statistics.median(peer[0] for peer in peers):9.1f}"
          f"{statistics.median(max(peer[:2]) for peer in peers):8.1f}"
          f"{statistics.median(max(peer[2:], default=0) for peer in peers):9.1f}  {statistics.median(ratios):.3f} "
          f"({min(ratios):.3f} to {max(ratios):.3f})  {median['share_of_machine_flops']:10.0%}  {shares}")
PYTHON
