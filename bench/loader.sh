#!/usr/bin/env bash
# Loading images, kiln against torchvision's DataLoader and DALI on the CPU: the same files, in turn, in one run, each ending at
# normalized float batches of random resized crops, randomly flipped; then kiln's share of waiting where each step of 32
# small images takes 5 ms.
#
#   bench/loader.sh PEERS PHOTOS SMALL [RUNS]
#
# PEERS is a folder with loader_rates.py (one JSON line per loader); PHOTOS and SMALL are folders of images, resized to 224 and 32
# pixels. Needs the Python of tests/parity; KILN_DALI, where set, is a folder with DALI's package. Leave the machine alone.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
peers=$1 photos=$2 small=$3 runs=${4:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
bench=${KILN_BENCH:-$root/build/release/kiln_bench}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$torch:$root/.deps/parity${KILN_DALI:+:$KILN_DALI}

for run in $(seq "$runs"); do
  for threads in 1 2; do
    for case in "photos $photos 224" "small $small 32"; do
      read -r name data size <<<"$case"
      echo "run $run of $runs: $name, $threads threads" >&2
      "$bench" loader --data "$data" --size "$size" --augment standard --threads "$threads" 2>/dev/null >"$work/$run.json"
      python3 -c 'import json, sys; print(json.dumps({"loader": "kiln", "img_per_s": json.load(open(sys.argv[1]))["images_per_second"]}))' \
        "$work/$run.json" >>"$work/$name-$threads.jsonl"
      python3 "$peers/loader_rates.py" --images "$data" --size "$size" --threads "$threads" 2>/dev/null \
        >>"$work/$name-$threads.jsonl" || [ -s "$work/$name-$threads.jsonl" ]
    done
  done
done
"$bench" loader --data "$small" --size 32 --batch-size 32 --step-ms 5 2>/dev/null >"$work/steps.json"
python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys

rates = {}
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
    for line in path.read_text().splitlines():
        found = json.loads(line)
        rates.setdefault(path.stem, {}).setdefault(found["loader"], []).append(found["img_per_s"])
for case, loaders in rates.items():
    ours = statistics.median(loaders["kiln"])
    for loader, values in loaders.items():
        middle = statistics.median(values)
        print(f"{case:10}{loader:13}{middle:10.1f} images/s ({min(values):.1f} to {max(values):.1f})   kiln is {ours / middle:.2f} x")
for name in ("photos", "small"):
    for loader in rates[f"{name}-1"]:
        one, two = (statistics.median(rates[f"{name}-{threads}"][loader]) for threads in (1, 2))
        print(f"{name:10}{loader:13}2 threads are {two / one:.2f} x of 1")
waited = json.loads((pathlib.Path(sys.argv[1]) / "steps.json").read_text())["share_waited"]
print(f"{'small':10}{'kiln':13}steps of 5 ms wait for data {waited:.2%} of the time")
PYTHON
