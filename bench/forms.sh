#!/usr/bin/env bash
# Reading rates of one dataset in each form that `kiln pack` writes, in turn, in one run: class folders, tar, TFRecord, RecordIO.
#
#   bench/forms.sh PHOTOS [RUNS] [SIZE]
#
# PHOTOS is a folder with one folder of images per class; images are resized to SIZE pixels (32). The rate is that of one loader
# thread with files in the page cache, decoding included; beside it what reading alone takes for an image. KILN_WORK, where set, is a
# folder on the storage to measure. Prints a table for docs/data.md. Leave the machine alone.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
photos=$1 runs=${2:-5} size=${3:-32}
root=$(cd "$(dirname "$0")/.." && pwd)
kiln=${KILN:-$root/build/release/kiln}
bench=${KILN_BENCH:-$(dirname "$kiln")/kiln_bench}
work=$(mktemp -d -p "${KILN_WORK:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

cp -r "$photos" "$work/folders"
for form in tar tfrecord recordio; do
  "$kiln" pack "$work/folders" "$work/$form" --format "$form" >/dev/null
done
for run in $(seq "$runs"); do
  for form in folders tar tfrecord recordio; do
    echo "run $run of $runs: $form" >&2
    "$bench" loader --data "$work/$form" --size "$size" --augment none --threads 1 2>/dev/null >"$work/$form-$run.json"
  done
done
python3 - "$work" <<'PYTHON'
import collections, json, pathlib, statistics, sys

work = pathlib.Path(sys.argv[1])
rates, reads = collections.defaultdict(list), collections.defaultdict(list)
for path in sorted(work.glob("*-*.json")):
    found, form = json.loads(path.read_text()), path.stem.rsplit("-", 1)[0]
    rates[form].append(found["images_per_second"])
    reads[form].append(found["microseconds_per_image"]["read"])
print("| form | files | size | images per second | reading one image |\n|---|---|---|---|---|")
for form in ("folders", "tar", "tfrecord", "recordio"):
    files = [path for path in (work / form).rglob("*") if path.is_file() and not path.name.startswith(".")]
    middle = statistics.median(rates[form])
    print(f"| {form} | {len(files)} | {sum(path.stat().st_size for path in files) / 1e6:.1f} MB "
          f"| {middle:.0f} ({min(rates[form]):.0f} to {max(rates[form]):.0f}) | {statistics.median(reads[form]):.1f} µs |")
PYTHON
