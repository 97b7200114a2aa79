#!/usr/bin/env bash
# Pack what tests/gpu/run.sh needs beside the repository into one file for a machine with a GPU.
#
#   tests/gpu/pack.sh [--small] FILE [BUILD [PHOTOS]]
#
# FILE is a tar archive, compressed as its name says (.tar.xz, XZ_OPT as usual, or .tar.gz); BUILD defaults to build/release.
# PHOTOS: a folder of photographs in train/CLASS and val/CLASS, of which some go along; by default ../shared/data/photos, and
# none where that is not there: at most 8 MB of them, or with --small 5 MB. KILN_NEXT names another build, whose kiln goes along as kiln-next, to be measured beside the
# first. LibTorch stays behind. Fails if FILE is larger than 60 MB, or FILE and the repository together than 64 MiB.
set -euo pipefail

most_bytes=60000000 most_with_tree=$((64 << 20))
most_photo_bytes=8000000
programs=(kiln_parallel_test kiln_loader_device_uploader_test kiln_gradient_buckets_test kiln_fused_norm_test kiln_nccl_pair_test kiln_model_tool kiln_bench)

fail() { echo "pack.sh: $1" >&2; exit 1; }
[ "${1:-}" != --small ] || { most_photo_bytes=5000000; shift; }
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
file=$1
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${2:-$root/build/release}
photos=${3:-$root/../shared/data/photos}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/kiln-gpu

# The bundle's mpirun as the program that tests call.
pack_mpirun() {
  mkdir "$bundle/mpi"
  cat >"$bundle/mpi/mpirun" <<'LAUNCHER'
#!/bin/sh
OPAL_PREFIX=$(CDPATH= cd -- "$(dirname -- "$0")/../lib/openmpi" && pwd)
OPAL_SYSCONFDIR=$OPAL_PREFIX/etc
export OPAL_PREFIX OPAL_SYSCONFDIR OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PMIX_MCA_mca_base_component_disable_dlopen=1 PMIX_MCA_pcompress_base_silence_warning=1
exec "$OPAL_PREFIX/bin/mpirun" "$@"
LAUNCHER
  chmod +x "$bundle/mpi/mpirun"
}

install_library() { # FROM TO RUN_PATH
  cp -L "$1" "$2"
  strip --strip-unneeded "$2"
  patchelf --force-rpath --set-rpath "$3" "$2"
}

# Every n-th photograph of each part, so that all classes are there.
pack_photos() {
  local bytes keep
  bytes=$(du -sbL "$photos" | cut -f1)
  keep=$(((bytes + most_photo_bytes - 1) / most_photo_bytes))
  (cd "$photos" && find -L train val -type f | sort | awk -v n="$keep" 'NR % n == 0' |
    tar -cf - --dereference -T -) | (mkdir "$bundle/photos" && tar -xf - -C "$bundle/photos")
}

"$root/environment/bundle.sh" "$bundle" "$build" "${programs[@]/#/$build/}" >/dev/null
for program in "${programs[@]}"; do
  sed "s|/bin/kiln\"|/bin/$program\"|" "$bundle/kiln" >"$bundle/$program"
  chmod +x "$bundle/$program"
done
pack_mpirun
if [ -n "${KILN_NEXT:-}" ]; then
  mkdir "$bundle/bin/next"
  for binary in kiln libkiln.so libkiln_cuda.so libkiln_onednn.so; do
    install_library "$KILN_NEXT/$binary" "$bundle/bin/next/$binary" '$ORIGIN/../../lib'
  done
  sed 's|/bin/kiln"|/bin/next/kiln"|' "$bundle/kiln" >"$bundle/kiln-next"
  chmod +x "$bundle/kiln-next"
fi
# tests/parity reads and writes tensors with it; it is not among what torch and torchvision need.
packages=${KILN_PARITY_PACKAGES:-$root/.deps/parity}
[ ! -d "$packages/safetensors" ] || { mkdir "$bundle/python" && cp -r "$packages/safetensors" "$bundle/python/"; }
[ ! -d "$photos" ] || pack_photos
XZ_OPT=${XZ_OPT:--6} tar -caf "$file" -C "$work" kiln-gpu
bytes=$(stat -c %s "$file")
echo "$file: $((bytes / 1000000)) MB"
tree_bytes=$(cd "$root" && git ls-files -zco --exclude-standard | du -cb --files0-from=- | tail -1 | cut -f1)
[ $((bytes + tree_bytes)) -le $most_with_tree ] || fail "that and the repository are more than $((most_with_tree >> 20)) MiB: take --small"
[ "$bytes" -le "$most_bytes" ] || fail "that is more than $((most_bytes / 1000000)) MB: pack fewer photographs"
