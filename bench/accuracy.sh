#!/usr/bin/env bash
# Kiln's accuracy beside that of trainers made of other people's parts (bench/accuracy_timm.py): the same network, images,
# hyperparameters and validation images, many seeds. timm's with mixup, smoothing and averages; torchvision's with the parts of
# its reference recipe (TrivialAugment, mixup and cutmix, erasing); and a head on frozen features beside scikit-learn's.
#
#   bench/accuracy.sh KILN TRAIN VALID OUT [SEEDS [EPOCHS]]
#   bench/accuracy.sh table [RESULTS]
#
# TRAIN and VALID hold class folders of 32x32 images, such as OUT/data/final and OUT/data/val of bench/recipes.py. 10 seeds, 12
# epochs. Each run adds a line to RESULTS (KILN_RESULTS, default bench/accuracy.jsonl), and a second start goes on with what is
# missing; KILN_JOBS of them (2) run side by side with one compute thread each. KILN_TIMM is the folder of timm (pip install
# --target). The table has the mean difference with its 95 % interval (Welch's), in points.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export results=${KILN_RESULTS:-$here/accuracy.jsonl} here
torch=${KILN_TORCH_ROOT:-$here/../.deps/libtorch}
export PYTHONPATH=$torch:$here/../.deps/parity${KILN_TIMM:+:$KILN_TIMM} OMP_WAIT_POLICY=passive
table() {
  python3 - "$1" <<'PYTHON'
import json, statistics, sys
from scipy import stats

rows = sorted((json.loads(line) for line in open(sys.argv[1])), key=lambda row: row["seed"])
print("| trainer beside Kiln | its top-1 | Kiln's | Kiln's minus its (95 % interval) | runs |\n|---|---|---|---|---|")
for peer in ("timm", "torchvision", "logistic"):
    theirs, ours = ([100 * row["top1"] for row in rows if row["trainer"] == name] for name in (peer, f"kiln-{peer}"))
    if len(theirs) < 2 or len(ours) < 2:
        continue
    if peer == "logistic":  # the same features, seed by seed
        test = stats.ttest_1samp([a - b for a, b in zip(ours, theirs, strict=True)], 0)
    else:
        test = stats.ttest_ind(ours, theirs, equal_var=False)
    low, high = test.confidence_interval()
    print(f"| {peer} | {statistics.mean(theirs):.2f} ± {stats.sem(theirs):.2f} | {statistics.mean(ours):.2f} ± {stats.sem(ours):.2f} "
          f"| {statistics.mean(ours) - statistics.mean(theirs):+.2f} ({low:+.2f} to {high:+.2f}) | {len(theirs)}, {len(ours)} |")
PYTHON
}
if [ "${1:-}" = table ]; then table "${2:-$results}"; exit; fi
[ $# -ge 4 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 train=$(realpath "$2") valid=$(realpath "$3") out=$4 seeds=${5:-10} epochs=${6:-12}
mkdir -p "$out"
touch "$results"
# With ten classes or three, the even ones in the order of their names are those of the backbone, the others those of the head.
if [ ! -e "$out/halves" ]; then
  for folder in "$train" "$valid"; do
    number=0
    for class in "$folder"/*/; do
      half=$out/halves.part/$((number++ % 2))/$([ "$folder" = "$train" ] && echo train || echo valid)
      mkdir -p "$half"
      ln -s "$class" "$half/"
    done
  done
  mv "$out/halves.part" "$out/halves"
fi
[ -e "$out/untrained" ] || "$kiln" init-model resnet18 --zero-init-residual --untrained-model-path "$out/untrained"
one() { # TRAINER SEED
  local place=$out/$1-$2 begin=$SECONDS
  rm -rf "$place"
  local run=("$kiln" train --trained-model-path "$place/model" --log-path "$place/logs" --threads 1
             --random-seed "$2" --save last --patience 100000)
  local same=(--untrained-model-path "$out/untrained" --epochs "$epochs" --batch-size 128 --learning-rate 0.128 --weight-decay 0.0005
              --no-decay norm-and-bias --lr-schedule cosine --num-warmup-steps 1 --label-smoothing 0.1 --ema 0.99 --precision bf16)
  local halves=$out/halves
  case $1 in
    timm|torchvision)
      python3 "$here/accuracy_timm.py" "$1" "$train" "$valid" --seed "$2" --epochs "$epochs" --precision bf16 >"$place.row" ;;
    kiln-timm)
      "${run[@]}" --train-data-path "$train" --valid-data-path "$valid" "${same[@]}" --augment standard --mixup 0.1 ;;
    kiln-torchvision)
      "${run[@]}" --train-data-path "$train" --valid-data-path "$valid" "${same[@]}" --augment strong --mixup 0.2 --cutmix 1 ;;
    kiln-logistic) # and scikit-learn's, on the features of the same backbone
      "${run[@]}" --train-data-path "$halves/0/train" --valid-data-path "$halves/0/valid" "${same[@]}" --augment flip
      mv "$place/model" "$place/backbone"
      "$kiln" export --trained-model-path "$place/backbone" --format torchvision --output-path "$place/backbone.pth"
      "${run[@]}" --train-data-path "$halves/1/train" --valid-data-path "$halves/1/valid" --model-name resnet18 --weights "$place/backbone" --freeze backbone
      python3 "$here/accuracy_timm.py" logistic "$halves/1/train" "$halves/1/valid" --weights "$place/backbone.pth" --seed "$2" \
        >"$place.row" ;;
  esac >"$place.log" 2>&1 || { tail -5 "$place.log" >&2; return 255; }
  if [ -e "$place.row" ]; then grep '^{' "$place.row" >>"$results"; rm "$place.row"; fi
  if [ -e "$place/model" ]; then
    python3 -c 'import json, sys
training = json.load(open(sys.argv[1]))
course = [round(epoch["top1"], 5) for epoch in training["epochs"]]
print(json.dumps({"trainer": sys.argv[2], "seed": int(sys.argv[3]), "top1": course[-1], "course": course, "seconds": int(sys.argv[4])}))' \
      "$place/model/training.json" "$1" "$2" $((SECONDS - begin)) >>"$results"
  fi
  rm -rf "$place" "$place.log"
  tail -1 "$results" | cut -c1-60 >&2
}
export -f one
export kiln train valid out epochs
for seed in $(seq "$seeds"); do
  for trainer in timm kiln-timm torchvision kiln-torchvision kiln-logistic; do
    [ "$trainer" != kiln-logistic ] || [ "$seed" -le 5 ] || continue
    grep -q "\"trainer\": \"$trainer\", \"seed\": $seed," "$results" || echo "$trainer $seed"
  done
done | xargs -r -P "${KILN_JOBS:-2}" -L 1 bash -c 'one $0 $1'
table "$results"
