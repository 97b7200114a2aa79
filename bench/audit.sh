#!/usr/bin/env bash
# How many of the labels that were turned `kiln audit` puts first: a share of the labels of half of the classes is turned at
# random, with a backbone that was trained on the other half.
#
#   bench/audit.sh KILN CIFAR [SHARES [SEEDS [EPOCHS]]]
#
# CIFAR has train/ and val/ with class folders, such as ../shared/data/cifar10-small. Of each of EPOCHS ("1 5 20": how long the
# backbone was trained), of SHARES ("0.02 0.05 0.1 0.2") and of SEEDS seeds (3) a row: how often the models agree with a label,
# the precision at the number turned, beside that of chance, which is the share, and precision and recall of the whole list.
# With KILN_BACKBONE, a folder like CIFAR with other images of the same classes, the backbone is trained on those.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 cifar=$2 shares=${3:-0.02 0.05 0.1 0.2} seeds=${4:-3} all_epochs=${5:-1 5 20}
work=$(mktemp -d)
others=${KILN_BACKBONE:-$work/others}
trap 'rm -rf "$work"' EXIT
python3 - "$cifar" "$work" <<'PYTHON'
import pathlib, shutil, sys

cifar, work = map(pathlib.Path, sys.argv[1:])
classes = sorted(path.name for path in (cifar / "train").iterdir() if path.is_dir())
for number, name in enumerate(classes):
    part = "others" if number % 2 else "images"
    for side in ("train", "val"):
        shutil.copytree(cifar / side / name, work / part / side / name)
PYTHON
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null
echo "| backbone's epochs | share turned | seed | agreement | precision at the number turned | listed | precision | recall |"
echo "|---|---|---|---|---|---|---|---|"
for epochs in $all_epochs; do
  "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$others/train" --valid-data-path "$others/val" \
    --trained-model-path "$work/model" --log-path "$work/logs" --epochs "$epochs" --recipe modern --batch-size 64 \
    >"$work/output" ||
    { cat "$work/output"; exit 1; }
  for share in $shares; do for seed in $(seq "$seeds"); do
    rm -rf "$work/turned" "$work/audit"
    python3 - "$work" "$share" "$seed" <<'PYTHON'
import json, pathlib, random, sys

work, share, draw = pathlib.Path(sys.argv[1]), float(sys.argv[2]), random.Random(int(sys.argv[3]))
source, target = work / "images/train", work / "turned"
classes = sorted(path.name for path in source.iterdir())
images = sorted(path for path in source.rglob("*") if path.is_file())
chosen, turned = set(draw.sample(images, round(share * len(images)))), []
for path in images:
    label = path.parent.name
    if path in chosen:
        label = draw.choice([name for name in classes if name != label])
        turned.append(f"{label}/{path.parent.name}-{path.name}")
    place = target / label / f"{path.parent.name}-{path.name}"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(path.resolve())
(work / "turned.json").write_text(json.dumps(turned))
PYTHON
    "$kiln" audit --data-path "$work/turned" --trained-model-path "$work/model" --output-path "$work/audit" \
      --random-seed "$seed" >"$work/output" || { cat "$work/output"; exit 1; }
    python3 - "$work" "$share" "$seed" "$epochs" <<'PYTHON'
import json, pathlib, sys

work, share, seed, epochs = pathlib.Path(sys.argv[1]), *sys.argv[2:]
turned = set(json.loads((work / "turned.json").read_text()))
record = json.loads((work / "audit/audit.json").read_text())
listed = [image["path"] for image in record["doubtful"]]
hits, first = len(turned & set(listed)), len(turned & set(listed[:len(turned)]))
found = f"{first / len(turned):.2f} | {len(listed)} | {hits / len(listed):.2f} | {hits / len(turned):.2f}" if listed else " | 0 | | "
print(f"| {epochs} | {share} | {seed} | {record['agreed'] / record['images']:.2f} | {found} |", flush=True)
PYTHON
  done; done
done
