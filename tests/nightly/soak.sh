#!/usr/bin/env bash
# Long and large runs: nothing grows with time, and odd sizes work. About an hour.
#
#   tests/nightly/soak.sh [EPOCHS]     500 unless given
#
# 1. Two ranks train a tiny dataset for EPOCHS epochs with pages and a checkpoint each: memory, threads and open files of
#    both stay level. 2. 10,000 classes. 3. One image a class. 4. 200,000 small files. 5. A path of 4,000 characters.
set -euo pipefail
cd "$(dirname "$0")/../.."
kiln=${KILN:-$PWD/build/release/kiln} epochs=${1:-500}
export OMP_WAIT_POLICY=passive OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

# Class folders with copies of a few images of demo data: draw FOLDER CLASSES IMAGES_OF_A_CLASS
draw() {
  [ -d "$work/demo" ] || "$kiln" demo-data --output-path "$work/demo" --images 40 --classes 2 --size 16 >/dev/null
  python3 - "$work/demo/train" "$@" <<'PYTHON'
import os, pathlib, sys
images = sorted(pathlib.Path(sys.argv[1]).rglob("*.png"))
target, classes, count = pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
contents = [image.read_bytes() for image in images]
for label in range(classes):
    folder = target / f"c{label:05}"
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number:06}.png").write_bytes(contents[(label + number) % len(contents)])
PYTHON
}

train() { # TRAIN VALID OPTIONS...
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$1" --valid-data-path "$2" \
    --trained-model-path "$work/model" --log-path "$work/logs" --device cpu "${@:3}"
}

echo "== $epochs epochs of two ranks with checkpoints and pages"
"$kiln" demo-data --output-path "$work/tiny" --images 24 --classes 2 --size 16 >/dev/null
train "$work/tiny/train" "$work/tiny/val" --ranks 2 --threads 1 --epochs "$epochs" --patience "$epochs" --batch-size 4 \
  --checkpoint-path "$work/checkpoints" >"$work/output" 2>&1 &
job=$!
python3 - "$job" "$work/logs/metrics.jsonl" "$epochs" <<'PYTHON'
import os, pathlib, statistics, sys, time
launcher, record, epochs = int(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])

def ranks():
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and b"OMPI_COMM_WORLD_RANK=" in pathlib.Path("/proc", name, "environ").read_bytes() \
                    and bytes(record.parent) in pathlib.Path("/proc", name, "cmdline").read_bytes():
                yield int(name)
        except (OSError, ProcessLookupError):
            pass

def sizes(process):
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) // 1024, int(status["Threads"]), len(os.listdir(f"/proc/{process}/fd"))

samples = {}
while os.path.exists(f"/proc/{launcher}"):
    done = record.read_text().count('{"event":"epoch"') if record.exists() else 0
    for process in ranks():
        try:
            samples.setdefault(process, []).append((done, *sizes(process)))
        except (OSError, ValueError, KeyError):
            pass
    if pathlib.Path(f"/proc/{launcher}/stat").read_text().split()[2] == "Z":
        break
    time.sleep(1)
failed = len(samples) < 2
for process, rows in samples.items():
    early = [row for row in rows if epochs * 0.2 <= row[0] < epochs * 0.4]
    late = [row for row in rows if row[0] >= epochs * 0.8]
    if not early or not late:
        failed = True
        continue
    for column, what, slack in ((1, "MB", 20), (2, "threads", 0), (3, "open files", 1)):
        before, after = (statistics.median(row[column] for row in some) for some in (early, late))
        print(f"process {process}: {before:.0f} {what} early, {after:.0f} late")
        failed |= after > before + slack
sys.exit("not level" if failed else 0)
PYTHON
wait "$job" || { tail -5 "$work/output"; exit 1; }
rm -rf "$work/logs" "$work/model"

echo "== 10,000 classes"
draw "$work/many" 10000 1
train "$work/many" "$work/many" --epochs 1 --batch-size 64 --image-size 16 --print-freq 1000 | tail -12
rm -rf "$work/logs" "$work/model"

echo "== one image a class"
draw "$work/single" 20 1
train "$work/single" "$work/single" --epochs 2 --batch-size 4 | tail -12
rm -rf "$work/logs" "$work/model"

echo "== 200,000 small files"
draw "$work/files" 2 100000
draw "$work/files-valid" 2 20
train "$work/files" "$work/files-valid" --epochs 1 --batch-size 256 --image-size 16 --print-freq 1000 2>&1 | tail -12
rm -rf "$work/logs" "$work/model" "$work/files"

echo "== a path of 4,000 characters"
long=$work
while [ ${#long} -lt 3700 ]; do long=$long/$(printf 'd%.0s' $(seq 200)); done
mkdir -p "$long"
cp -r "$work/tiny" "$long/tiny"
(cd "$long" && "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$long/tiny/train" \
  --valid-data-path "$long/tiny/val" --trained-model-path "$long/model" --log-path "$long/logs" --device cpu --epochs 1 \
  --batch-size 4 --checkpoint-path "$long/checkpoints" | tail -12)
echo "all of it held"
