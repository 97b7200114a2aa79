#!/usr/bin/env bash
# Train in a container, on the CPU: draws a small dataset, creates an untrained ResNet-18 and trains it.
#
#   examples/docker.sh [IMAGE] [OUT]      IMAGE: from environment/build-image.sh; OUT: a folder, by default build/docker.
#                                         ENGINE=podman uses podman instead of docker.
#
# On GPUs, IMAGE is kiln:0.1.0-cuda, `run` needs  --gpus all --shm-size=1g --ulimit memlock=-1 --ulimit stack=67108864
# and train `--ranks auto`, for one process per GPU.
set -euo pipefail

image=${1:-kiln:0.1.0-cpu}
out=${2:-$(dirname "$0")/../build/docker}
mkdir -p "$out"
out=$(cd "$out" && pwd)

# Only /out and /tmp are written, as the calling user, and nothing is sent over the network.
# In podman without root the caller is another user inside, unless told otherwise.
engine=${ENGINE:-docker}
own_user=()
[ "$(basename "$engine")" != podman ] || [ "$(id -u)" -eq 0 ] || own_user=(--userns=keep-id)
kiln() {
  "$engine" run "${own_user[@]}" --rm --read-only --network none --tmpfs /tmp --user "$(id -u):$(id -g)" \
    --volume "$out:/out" "$image" "$@"
}

[ -d "$out/data" ] || kiln demo-data --output-path /out/data --images 300
kiln init-model resnet18 --untrained-model-path /out/untrained
kiln train --untrained-model-path /out/untrained --train-data-path /out/data/train --valid-data-path /out/data/val \
  --trained-model-path /out/model --log-path /out/logs --epochs 3 --batch-size 32 --learning-rate 0.01
kiln inspect /out/model
echo "The model is in $out/model, the log in $out/logs."
