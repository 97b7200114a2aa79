#!/usr/bin/env bash
# How many of the labels that were turned `kiln audit` puts first: a share of the labels of half of the classes is turned at
# random, with a backbone that was trained on the other half.
#
#   bench/audit.sh KILN CIFAR [SHARE [SEEDS [EPOCHS]]]
#
# CIFAR has train/ and val/ with class folders, such as ../shared/data/cifar10-small. Printed for each seed: the precision at
# the number turned, beside that of chance, which is SHARE (default 0.05).
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 cifar=$2 share=${3:-0.05} seeds=${4:-3} epochs=${5:-10}
work=$(mktemp -d)
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
"$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$work/others/train" \
  --valid-data-path "$work/others/val" --trained-model-path "$work/model" --log-path "$work/logs" --epochs "$epochs" \
  --patience "$epochs" --batch-size 64 --learning-rate 0.02 --augment standard >"$work/output" ||
  { cat "$work/output"; exit 1; }
for seed in $(seq "$seeds"); do
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
  python3 - "$work" "$share" "$seed" <<'PYTHON'
import json, pathlib, sys

work = pathlib.Path(sys.argv[1])
turned = set(json.loads((work / "turned.json").read_text()))
record = json.loads((work / "audit/audit.json").read_text())
first = [image["path"] for image in record["doubtful"][:len(turned)]]
hits = len(turned & set(first))
print(f"seed {sys.argv[3]}: {hits} of {len(turned)} turned labels among the first {len(turned)}: "
      f"precision {hits / len(turned):.3f}, by chance {float(sys.argv[2]):.3f}; "
      f"{len(record['doubtful'])} in the list, {record['probably_wrong']} by estimate, "
      f"models agree with {record['agreed'] / record['images']:.3f} of the labels")
PYTHON
done
