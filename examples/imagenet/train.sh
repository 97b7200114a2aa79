#!/usr/bin/env bash
# ResNet-50 on ImageNet-1k: train.sh SHARDS OUT [more options of kiln train]
#
# On one host, one process per GPU (8 GPUs: a global batch of 512). On two hosts with 8 GPUs each that see the same
# folders, HOSTS=node1:8,node2:8 train.sh … starts 16 (a global batch of 1024).
# Beforehand, once, with the images as class folders (1000 folders of JPEGs in train and in val):
#
#   kiln pack --input-path imagenet/train --output-path SHARDS/train --short-side 256 --shuffle --even-shards
#   kiln pack --input-path imagenet/val   --output-path SHARDS/val   --short-side 256
#
# RECIPE=resnet50-50-epochs or resnet50-90-epochs uses another file of this folder, whose README.md says what to expect.
# Published results of the component that Kiln replaces, ResNet-50 after 50 epochs: on 16 V100 68.83 % top-1 in 6 h 22 min,
# on 8 V100 68.84 % in 12 h 21 min. They are for its own recipe; Kiln has not been measured yet.
set -euo pipefail
shards=$1 out=$2
shift 2
kiln=${KILN:-kiln}

mkdir -p "$out"
"$kiln" init-model resnet50 --zero-init-residual --untrained-model-path "$out/untrained"
options=(--config "$(dirname "$0")/${RECIPE:-resnet50}.yaml" --untrained-model-path "$out/untrained"
  --train-data-path "$shards/train" --valid-data-path "$shards/val"
  --trained-model-path "$out/model" --log-path "$out/logs" "$@")
if [ -n "${HOSTS:-}" ]; then
  exec "$kiln" launch --ranks auto --hosts "$HOSTS" -- train "${options[@]}"
fi
exec "$kiln" train --ranks auto "${options[@]}"
