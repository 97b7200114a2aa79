#!/usr/bin/env bash
# kiln serve beside a server of FastAPI with torchvision, and beside kiln's own parts: one model, the same photos and threads, in
# turn, several times.
#
#   bench/serve.sh IMAGES [RUNS [NETWORK [SIZE]]]
#
# IMAGES has a folder of images for each class. ResNet-18 and 224 pixels unless given. Needs wrk (a Debian package), the Python of
# tests/parity, and fastapi and uvicorn of environment/wheels-serving.txt (environment/install.sh). One table: the rate that 16
# clients get, beside `kiln score`'s; one client's latency, beside the decode and the forward pass of one image; the 99th
# percentile of the latency at half of the highest rate with Poisson arrivals; the seconds from the start to the first answer.
# The clients take a part of the processors. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
images=$(realpath "$1") runs=${2:-3} network=${3:-resnet18} size=${4:-224}
root=$(cd "$(dirname "$0")/.." && pwd)
kiln=${KILN:-$root/build/release/kiln}
torch=${KILN_TORCH_ROOT:-$root/.deps/libtorch}
command -v wrk >/dev/null || { echo "serve.sh: install wrk" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/bench/trained_model.sh"
make_trained_model
PYTHONPATH=$torch:$root/.deps/parity:$root/.deps/serving python3 "$root/bench/serve_rates.py" "$kiln" "$work" "$images" "$runs"
