#!/usr/bin/env bash
# From nothing to a trained model: installs, builds, draws a small dataset, trains a ResNet-18 on it.
#
# On two cores: about 1 to 4 minutes to install, 6 to 9 to build (both are skipped if already done), 2 to train.
# Expect more than 95 % top-1. Everything is written to build/quickstart.
set -euo pipefail
cd "$(dirname "$0")/.."

environment/install.sh --no-tests
cmake --preset release >/dev/null
cmake --build --preset release --target kiln

out=build/quickstart
rm -rf "$out"
mkdir -p "$out"
build/release/kiln demo-data --output-path "$out/data" --images 1000
build/release/kiln init-model resnet18 --untrained-model-path "$out/untrained"
build/release/kiln train \
  --untrained-model-path "$out/untrained" \
  --train-data-path "$out/data/train" --valid-data-path "$out/data/val" \
  --trained-model-path "$out/model" --log-path "$out/logs" \
  --epochs 4 --batch-size 32 --learning-rate 0.01
build/release/kiln inspect "$out/model"
echo "Open $out/logs/report.html in a browser. The model is in $out/model."
