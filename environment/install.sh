#!/usr/bin/env bash
# Make a Debian 12 machine ready to build and test Kiln. Safe to run again: finished steps are skipped.
#
#   environment/install.sh            everything (about 4 minutes on a bare machine)
#   environment/install.sh --no-tests without what only tests and checks use
#
# Needs root (or sudo), python3 with pip (installed here if missing) and the machine's own package settings.
# LibTorch goes to .deps/libtorch, unless KILN_TORCH_ROOT points to one that is there already.
set -euo pipefail

case ${1:-} in '' | --no-tests) ;; *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
here=$(cd "$(dirname "$0")" && pwd)
deps=$(dirname "$here")/.deps
log=$deps/install.log
mkdir -p "$deps"
: >"$log"

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

fail() {
  echo "install.sh: $1" >&2
  tail -n 15 "$log" >&2
  echo "install.sh: the whole output is in $log" >&2
  exit 1
}

# missing_packages LISTS…
missing_packages() {
  local package
  cat "$@" | while read -r package; do
    [ "$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || echo "$package"
  done
}

# unpack LIST FOLDER: the wheels of LIST, by hash and without a resolver, into FOLDER.
unpack() {
  local platforms=() tag
  for tag in 2_28 2_27 2_25 2_24 2_18 2_17 2_12 2_5; do platforms+=(--platform "manylinux_${tag}_x86_64"); done
  for tag in 2014 2010 1; do platforms+=(--platform "manylinux${tag}_x86_64"); done
  python3 -m pip --disable-pip-version-check install -q --no-cache-dir --no-compile --no-deps --require-hashes \
    --only-binary=:all: --python-version 3.11 --implementation cp "${platforms[@]}" --platform any \
    --target "$2" --root-user-action ignore -r "$here/$1" >>"$log" 2>&1 ||
    fail "the Python packages of $1 could not be installed"
}

# step TITLE STAMP LISTS… -- COMMAND: runs COMMAND unless STAMP holds the checksum of LISTS already.
step() {
  local title=$1 stamp=$2 lists=()
  shift 2
  while [ "$1" != -- ]; do lists+=("$here/$1"); shift; done
  shift
  local sum
  sum=$(cat "${lists[@]}" | sha256sum)
  if [ "$(cat "$stamp" 2>/dev/null)" = "$sum" ]; then echo "$title: there already"; return; fi
  local begin=$SECONDS
  rm -f "$stamp" # what it stands for is about to be removed
  "$@" || return 1
  echo "$sum" >"$stamp"
  echo "$title: installed in $((SECONDS - begin)) s"
}

install_libtorch() {
  rm -rf "$deps/libtorch"
  unpack wheels-libtorch.txt "$deps/libtorch"
}

install_headers() {
  rm -rf "$deps/headers"
  unpack wheels-cuda-headers.txt "$deps/headers"
}

install_arrow() {
  rm -rf "$deps/arrow"
  unpack wheels-arrow.txt "$deps/arrow"
}

install_parity() {
  rm -rf "$deps/parity"
  unpack wheels-parity.txt "$deps/parity"
}

# One of them is published as source alone: the setuptools of the parity tests builds it.
install_clients() {
  rm -rf "$deps/clients"
  PYTHONPATH=$deps/parity python3 -m pip --disable-pip-version-check install -q --no-cache-dir --no-compile --no-deps \
    --require-hashes --use-pep517 --no-build-isolation --target "$deps/clients" --root-user-action ignore \
    -r "$here/clients.txt" >>"$log" 2>&1 || { rm -rf "$deps/clients"; return 1; }
}

install_serving() {
  rm -rf "$deps/serving"
  unpack wheels-serving.txt "$deps/serving"
}

install_mlflow() {
  rm -rf "$deps/mlflow"
  unpack wheels-mlflow.txt "$deps/mlflow"
}

install_buckets() {
  rm -rf "$deps/buckets"
  unpack wheels-buckets.txt "$deps/buckets"
}

install_notebook() {
  rm -rf "$deps/notebook"
  unpack wheels-notebook.txt "$deps/notebook"
}

install_onnx() {
  rm -rf "$deps/onnx"
  unpack wheels-onnx.txt "$deps/onnx"
}

# A container may lack python3 altogether, so the Debian packages come first.
package_lists=("$here/packages-build.txt")
if [ "${1:-}" != --no-tests ]; then package_lists+=("$here/packages-test.txt"); fi
mapfile -t missing < <(missing_packages "${package_lists[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  begin=$SECONDS
  as_root apt-get update >>"$log" 2>&1 || fail "apt-get update failed"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" \
    >>"$log" 2>&1 || fail "the Debian packages could not be installed: ${missing[*]}"
  echo "Debian packages: ${#missing[@]} installed in $((SECONDS - begin)) s"
else
  echo "Debian packages: there already"
fi

if [ -n "${KILN_TORCH_ROOT:-}" ]; then
  [ -d "$KILN_TORCH_ROOT/torch/lib" ] || fail "KILN_TORCH_ROOT=$KILN_TORCH_ROOT has no torch/lib in it"
  echo "LibTorch: taken from KILN_TORCH_ROOT=$KILN_TORCH_ROOT"
else
  step "LibTorch 2.11.0" "$deps/libtorch.stamp" wheels-libtorch.txt -- install_libtorch
fi
step "CUDA's inner headers" "$deps/headers.stamp" wheels-cuda-headers.txt -- install_headers
step "Arrow 26.0.1" "$deps/arrow.stamp" wheels-arrow.txt -- install_arrow
if [ "${1:-}" != --no-tests ]; then
  step "Python for the parity tests" "$deps/parity.stamp" wheels-parity.txt -- install_parity
  step "The platforms' clients" "$deps/clients.stamp" clients.txt -- install_clients ||
    echo "The platforms' clients: could not be installed ($log), so tests/platforms will be skipped"
  step "Clients of servers" "$deps/serving.stamp" wheels-serving.txt -- install_serving
  step "MLflow for its test" "$deps/mlflow.stamp" wheels-mlflow.txt -- install_mlflow
  step "Servers of buckets for their test" "$deps/buckets.stamp" wheels-buckets.txt -- install_buckets
  step "A kernel of Jupyter for its test" "$deps/notebook.stamp" wheels-notebook.txt -- install_notebook
  step "ONNX Runtime for its test" "$deps/onnx.stamp" wheels-onnx.txt -- install_onnx
fi
