#!/usr/bin/env bash
# A head on frozen features (`--freeze backbone`): its seconds beside one bare forward pass over the same images, and its
# accuracy beside that of the same head trained in epochs. The backbone has learned half of the classes; the images are those of
# the other half.
#
#   bench/frozen.sh KILN CIFAR [SEEDS [PRETRAINING_EPOCHS [HEAD_EPOCHS [SIZE]]]]
#
# CIFAR has train/ and val/ with class folders, such as ../shared/data/cifar10-small. For each of SEEDS seeds (3) the images of
# the held-out classes are shuffled: a fifth judges, the others are learned. 15 epochs for the backbone, 40 for a head. Seconds
# are of the whole command; beside the forward pass, which is that of `kiln_bench step --inference`, images are enlarged to
# SIZE (128). To reach: at most 1.5 x the pass + 2 s, and on the mean at most 1 point below the better of two loops. Leave the
# machine alone meanwhile.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 bench=$(dirname "$1")/kiln_bench cifar=$2 seeds=${3:-3} epochs=${4:-15} head_epochs=${5:-40} size=${6:-128}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
train() { # NAME OPTIONS...
  "$kiln" train --trained-model-path "$work/$1" --log-path "$work/$1-logs" --device cpu "${@:2}" >"$work/output" 2>&1 ||
    { cat "$work/output" >&2; exit 1; }
}
python3 - "$cifar" "$work" "$seeds" <<'PYTHON'
import pathlib, random, sys

cifar, work, seeds = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), int(sys.argv[3])
names = sorted(path.name for path in (cifar / "train").iterdir() if path.is_dir())
held_out = names[::2]

def link(image, side, place):
    name = image.parent.name
    target = work / place / name / f"{side}-{image.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.symlink_to(image)

def images_of(chosen):
    return [(image, side) for side in ("train", "val") for name in chosen for image in sorted((cifar / side / name).iterdir())]

for image, side in images_of([name for name in names if name not in held_out]):
    link(image, side, f"others/{side}")
for seed in range(1, seeds + 1):
    images = images_of(held_out)
    random.Random(seed).shuffle(images)
    for number, (image, side) in enumerate(images):
        link(image, side, f"images-{seed}/{'val' if number < len(images) // 5 else 'train'}")
PYTHON
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null
train backbone --untrained-model-path "$work/untrained" --train-data-path "$work/others/train" \
  --valid-data-path "$work/others/val" --epochs "$epochs" --patience "$epochs" --batch-size 64 --learning-rate 0.02 \
  --augment standard
for seed in $(seq "$seeds"); do
  echo "seed $seed of $seeds" >&2
  head=(--model-name resnet18 --weights "$work/backbone" --train-data-path "$work/images-$seed/train"
        --valid-data-path "$work/images-$seed/val" --freeze backbone --random-seed "$seed")
  loop=(--epochs "$head_epochs" --patience "$head_epochs" --batch-size 64 --learning-rate 0.05)
  train "features-$seed" "${head[@]}"
  # Images of each host's own are never kept as features: one rank, and the same images.
  train "loop-$seed" "${head[@]}" "${loop[@]}" --shard-by train
  train "flip-$seed" "${head[@]}" "${loop[@]}" --augment flip
  train "large-$seed" "${head[@]}" --image-size "$size"
  "$bench" step --inference --model-name resnet18 --size "$size" --batch-size 64 --classes 5 --threads "$(nproc)" \
    --device cpu >"$work/forward-$seed.json"
done
python3 - "$work" "$seeds" "$size" <<'PYTHON'
import json, pathlib, statistics, sys

work, seeds, size = pathlib.Path(sys.argv[1]), range(1, int(sys.argv[2]) + 1), sys.argv[3]

def records(name):
    return [json.loads((work / f"{name}-{seed}/training.json").read_text()) for seed in seeds]

def top1(name):
    return [100 * record["epochs"][-1]["top1"] for record in records(name)]  # not the best, which the judges chose

def seconds(name):
    return [record["total_seconds"] for record in records(name)]

def spread(values, form=".1f"):
    return f"{statistics.mean(values):{form}} ({min(values):{form}} to {max(values):{form}})"

counts = records("features")[0]["data"]["counts"]
learned, judged = (sum(count[side] for count in counts.values()) for side in ("train", "valid"))
rates = [json.loads((work / f"forward-{seed}.json").read_text())["images_per_second"] for seed in seeds]
passes = [(learned + judged) / rate for rate in rates]
limits = [1.5 * one + 2 for one in passes]
print(f"{learned} images learned, {judged} judge, {len(seeds)} seeds: mean (lowest to highest)\n")
print("| the head | top-1 | seconds |\n|---|---|---|")
for title, name in (("on features", "features"), ("in epochs", "loop"), ("in epochs, --augment flip", "flip")):
    print(f"| {title} | {spread(top1(name))} % | {spread(seconds(name))} |")
best = max(statistics.mean(top1(name)) for name in ("loop", "flip"))
print(f"\non features: {statistics.mean(top1('features')) - best:+.1f} points beside the better loop, at least -1 wanted\n")
print(f"| {learned + judged} images of {size} pixels | seconds |\n|---|---|")
print(f"| a bare forward pass | {spread(passes)} |\n| the whole command | {spread(seconds('large'))} |")
print(f"| 1.5 x the pass + 2 s | {spread(limits)} |")
PYTHON
