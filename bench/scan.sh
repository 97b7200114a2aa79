#!/usr/bin/env bash
# Listing class folders: kiln and torchvision's ImageFolder, on the same generated files in one run.
#
#   bench/scan.sh [IMAGES [RUNS]]
#
# Makes IMAGES (200000) empty files in 1000 folders and lists them RUNS (5) times each way, in turn. Then a slow mount is
# simulated on a tenth of the folders: strace delays every open, stat and getdents of either program by 1 ms, several threads
# at a time, as a network would. Needs build/release/kiln_scan_bench, the Python of tests/parity, and strace for the last part.
set -euo pipefail
images=${1:-200000} runs=${2:-5}
root=$(cd "$(dirname "$0")/.." && pwd)
scan=${KILN_SCAN_BENCH:-$root/build/release/kiln_scan_bench}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
python=(env "PYTHONPATH=$torch:$root/.deps/parity" python3)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/image_folder.py" <<'PYTHON'
import json, sys, time
from torchvision.datasets import ImageFolder
begin = time.perf_counter()
images = len(ImageFolder(sys.argv[1]))
print(json.dumps({"seconds": round(time.perf_counter() - begin, 4), "images": images}))
PYTHON

python3 - "$work" "$images" <<'PYTHON'
import os, sys
work, images = sys.argv[1], int(sys.argv[2])
for part, share in (("all", images), ("tenth", images // 10)):
    folders = 1000 if part == "all" else 100
    for folder in range(folders):
        path = f"{work}/{part}/n{folder:08d}"
        os.makedirs(path)
        for image in range(share // folders):
            open(f"{path}/n{folder:08d}_{image}.JPEG", "w").close()
        os.utime(path, (1e9, 1e9))
PYTHON

for _ in $(seq "$runs"); do
  "${python[@]}" "$work/image_folder.py" "$work/all" >>"$work/torchvision.jsonl"
  "$scan" "$work/all" >>"$work/kiln.jsonl"
done
if command -v strace >/dev/null; then
  slowly=(strace -f -qq -o /dev/null -e 'trace=openat,getdents64,newfstatat,stat'
          -e 'inject=openat,getdents64,newfstatat,stat:delay_exit=1000')
  "${slowly[@]}" "${python[@]}" "$work/image_folder.py" "$work/tenth" >"$work/torchvision_slow.jsonl"
  "${slowly[@]}" "$scan" "$work/tenth" >"$work/kiln_slow.jsonl"
else
  echo "strace is not installed: no slow mount is simulated" >&2
fi

python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys
print("| lists | images | median s | least | most |\n|---|---|---|---|---|")
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    seconds = [row["seconds"] for row in rows]
    print(f"| {path.stem} | {rows[0]['images']} | {statistics.median(seconds):.4f} | {min(seconds):.4f} | {max(seconds):.4f} |")
PYTHON
