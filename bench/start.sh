#!/usr/bin/env bash
# How long a command takes that has little to do: --help, a refused command line, and `kiln score` of one photo beside a LibTorch
# program that loads the same network and forwards one image (one_photo.cpp).
#
#   bench/start.sh IMAGES [RUNS]
#
# IMAGES has a folder of images for each class. ResNet-18, 224 pixels, ten runs in turn unless given; medians and ranges, warm.
# Needs the Python of tests/parity (environment/install.sh). Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
images=$(realpath "$1") runs=${2:-10} network=resnet18 size=224
root=$(cd "$(dirname "$0")/.." && pwd)
kiln=${KILN:-$root/build/release/kiln}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/bench/trained_model.sh"
make_trained_model
PYTHONPATH=$torch:$root/.deps/parity python3 - "$kiln" "$work" "$images" "$runs" <<'PYTHON'
import pathlib, statistics, subprocess, sys, time

import torch, torchvision

kiln, work, images, runs = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
network = torchvision.models.resnet18(num_classes=len(list(images.iterdir()))).eval()
torch.jit.trace(network, torch.rand(1, 3, 224, 224)).save(work / "network.pt")
photo = min(path for path in images.rglob("*") if path.suffix in (".jpg", ".jpeg", ".JPEG", ".png"))
commands = {
    "kiln --help": [kiln, "--help"], "kiln train --epochs x": [kiln, "train", "--epochs", "x"],
    "kiln score, one photo": [kiln, "score", "--trained-model-path", work / "model", "--data-path", photo, "--output-path",
                              work / "scores.csv", "--device", "cpu"],
    "LibTorch, one image": [pathlib.Path(kiln).with_name("kiln_one_photo"), work / "network.pt"]}
seconds = {name: [] for name in commands}
for _ in range(runs + 1):  # the first warms up
    for name, command in commands.items():
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=name != "kiln train --epochs x")
        seconds[name].append(time.perf_counter() - begin)
for name, found in seconds.items():
    found = found[1:]
    print(f"{name:24}{statistics.median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")
PYTHON
