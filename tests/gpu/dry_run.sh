#!/usr/bin/env bash
# Pack a build and run every step on the CPU: dry_run.sh BUILD. Exit 77, a skip, without the Python packages of tests/parity.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
export KILN_PARITY_PACKAGES=${KILN_PARITY_PACKAGES:-$here/../../.deps/parity}
[ -d "$KILN_PARITY_PACKAGES/torchvision" ] || { echo "skipped: no torchvision in $KILN_PARITY_PACKAGES"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Importing torch takes 5 s with its compiled modules and 12 s without; they stay in the build for the next time.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$1/pycache
"$1/kiln" demo-data "$work/photos" --size 64 --images 100 >/dev/null
"$here/pack.sh" "$work/bundle.tar.gz" "$1" "$work/photos"  # xz takes four times as long
"$here/run.sh" --device cpu "$work/bundle.tar.gz" "$work/results"
