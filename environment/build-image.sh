#!/usr/bin/env bash
# Build the image of kiln with docker, podman or buildah, whichever is there.
#
#   environment/build-image.sh cpu|cuda [IMAGE] [FOLDER]    IMAGE defaults to kiln:VERSION-cpu or -cuda
#
# SAGEMAKER_HOSTS_KEY=1 makes a key pair in it for SageMaker jobs of several hosts: keep such an image private.
# HEIC=1 adds Debian's libheif, which reads HEIC photos.
# FOLDER/bundle, made by bundle.sh --whole on Debian 12, takes the place of the first stage, which would install and build.
# ENGINE chooses one of the three, BASE_IMAGE another base than debian:bookworm-slim. Where PIP_CERT or PIP_CONFIG_FILE is
# set, pip inside the build gets that file, as a secret that stays out of the image.
set -euo pipefail

case ${1:-} in cpu | cuda) ;; *) sed -n '2,11p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2 ;; esac
variant=$1
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(kiln VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
image=${2:-kiln:$version-$variant}

find_engine() {
  if docker info >/dev/null 2>&1; then echo docker; return; fi
  for engine in podman buildah; do
    if command -v $engine >/dev/null; then echo $engine; return; fi
  done
  echo "build-image.sh: neither a running docker nor podman nor buildah is here: install one of them" >&2
  exit 1
}

engine=${ENGINE:-$(find_engine)}
# The name that NVIDIA's packages give their license.
licenses=Apache-2.0
if [ "$variant" = cuda ]; then licenses+=" AND LicenseRef-NVIDIA-Proprietary"; fi

options=(--build-arg "VARIANT=$variant" --build-arg "VERSION=$version" --build-arg "LICENSES=$licenses"
  --build-arg "COMMIT=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)" --tag "$image")
if [ -n "${BASE_IMAGE:-}" ]; then options+=(--build-arg "BASE_IMAGE=$BASE_IMAGE"); fi
if [ -n "${SAGEMAKER_HOSTS_KEY:-}" ]; then options+=(--build-arg "SAGEMAKER_HOSTS_KEY=$SAGEMAKER_HOSTS_KEY"); fi
if [ -n "${HEIC:-}" ]; then options+=(--build-arg "HEIC=$HEIC"); fi
if [ -n "${3:-}" ]; then options+=(--build-context "build=$3"); fi
if [ -n "${PIP_CERT:-}" ]; then options+=(--secret "id=ca_bundle,src=$PIP_CERT"); fi
if [ -n "${PIP_CONFIG_FILE:-}" ]; then options+=(--secret "id=pip_conf,src=$PIP_CONFIG_FILE"); fi
# Without it podman and buildah build every stage anew each time.
if [ "$engine" != docker ]; then options+=(--layers); fi

$engine build "${options[@]}" .
echo "$image: built with $engine"
