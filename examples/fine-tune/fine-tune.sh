#!/usr/bin/env bash
# Fine-tune a pretrained ResNet-18 on your photos: fine-tune.sh WEIGHTS PHOTOS OUT [more options of kiln train]
#
# WEIGHTS: a state dict as torchvision publishes it (.pth) or .safetensors. PHOTOS: class folders in train and in val.
# The learning rate, 0.01, is a first one to try; images are normalized as the weights expect.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
weights=$1 photos=$2 out=$3
shift 3
built=$(cd "$(dirname "$0")/../.." && pwd)/build/release/kiln
kiln=${KILN:-$(command -v kiln || echo "$built")}

mkdir -p "$out"
"$kiln" init-model resnet18 --weights "$weights" --untrained-model-path "$out/untrained"
exec "$kiln" train --ranks auto --learning-rate 0.01 --augment flip \
  --untrained-model-path "$out/untrained" \
  --train-data-path "$photos/train" --valid-data-path "$photos/val" \
  --trained-model-path "$out/model" --log-path "$out/logs" "$@"
