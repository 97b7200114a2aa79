#!/usr/bin/env bash
# Pack a build and run a part of the steps, or all, without a GPU: dry_run.sh BUILD [DEVICE [PART [STEPS]]]. DEVICE cpu, or cuda,
# which is the stand-in device (fake/README.md). Its first part on the stand-in by day, the rest with KILN_NIGHTLY=1: otherwise,
# and without the Python packages of tests/parity, exit 77, a skip.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1 device=${2:-cpu} part=${3:-all} steps=${4:-}
[ "$device $part$steps" = "cuda first" ] || [ "${KILN_NIGHTLY:-}" = 1 ] || { echo "skipped: only with KILN_NIGHTLY=1"; exit 77; }
export KILN_PARITY_PACKAGES=${KILN_PARITY_PACKAGES:-$here/../../.deps/parity}
[ -d "$KILN_PARITY_PACKAGES/torchvision" ] || { echo "skipped: no torchvision in $KILN_PARITY_PACKAGES"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Importing torch takes 5 s with its compiled modules and 12 s without; they stay in the build for the next time.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$build/pycache
"$build/kiln" demo-data "$work/photos" --size 64 --images 100 >/dev/null
for number in $(seq 200); do head -c 60000 /dev/urandom >"$work/photos/val/large-$number.jpg"; done  # more than are packed
next=
if [ "$device" = cuda ]; then
  mkdir "$work/build"
  ln -s "$build"/{CMakeCache.txt,kiln,kiln_*,libkiln.so,libkiln_arrow.so,libkiln_onednn.so,libkiln_pictures.so} "$build/stand_in/libkiln_cuda.so" "$work/build/"
  export LD_LIBRARY_PATH=$build/tests/flow/stand_in_driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} KILN_LOAD_SIDE=64 \
    KILN_STAND_IN_DRIVER_VERSION=580.65.06 KILN_STAND_IN_CAPABILITY=90 KILN_STAND_IN_COPY_US=300 KILN_STAND_IN_SUM_US=300
  # As on a machine without ssh.
  mkdir "$work/bin"
  IFS=: read -ra folders <<<"$PATH"
  for folder in "${folders[@]}"; do
    for tool in "$folder"/*; do
      case ${tool##*/} in ssh | rsh) ;; *) [ -e "$work/bin/${tool##*/}" ] || ln -s "$tool" "$work/bin/" 2>/dev/null || true ;; esac
    done
  done
  build=$work/build next=$work/build
fi
KILN_NEXT=$next XZ_OPT=-0 "$here/pack.sh" --small "$work/bundle.tar.xz" "$build" "$work/photos"
packed=$(tar -tvf "$work/bundle.tar.xz" | awk '/kiln-gpu\/photos\// {sum += $3} END {print sum}')
[ "$packed" -gt 0 ] && [ "$packed" -le 5000000 ] || { echo "dry_run.sh: $packed bytes of photographs were packed"; exit 1; }
[ "$device" = cpu ] || PATH=$work/bin
"$here/run.sh" --device "$device" --part "$part" --steps "$steps" "$work/bundle.tar.xz" "$work/results"
