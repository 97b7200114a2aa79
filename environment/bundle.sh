#!/usr/bin/env bash
# Gather the program and the shared libraries that another machine lacks into one folder that can be copied.
#
#   environment/bundle.sh OUT [BUILD [PROGRAM…]]          without LibTorch's, NVIDIA's and Arrow's libraries: on the other machine set
#                                                         KILN_TORCH_ROOT to a folder with torch/ and nvidia/
#                                                         (wheels-libtorch.txt says how it is made) and run OUT/kiln.
#                                                         PROGRAM: another one of BUILD, which OUT/bin then has too
#   environment/bundle.sh --whole cpu|cuda OUT [BUILD]    with them, their licenses and OUT/setup/install.sh, which makes a bare
#                                                         Debian 12 run it: what the image is made of; cpu leaves the
#                                                         GPU module and its libraries out
#
# BUILD defaults to build/release. glibc's own libraries stay behind.
set -euo pipefail

usage() { sed -n '2,12p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
fail() { echo "bundle.sh: $1" >&2; exit 1; }

variant=without-libtorch
if [ "${1:-}" = --whole ]; then
  variant=${2:-}
  case $variant in cpu | cuda) shift 2 ;; *) usage ;; esac
fi
[ $# -ge 1 ] || usage
out=$1
environment=$(cd "$(dirname "$0")" && pwd)
build=${2:-$environment/../build/release}
[ -x "$build/kiln" ] || fail "$build/kiln is not there: build first"
root=$(sed -n 's/^KILN_TORCH_ROOT:PATH=//p' "$build/CMakeCache.txt")
arrow=$(sed -n 's/^KILN_ARROW_ROOT:PATH=//p' "$build/CMakeCache.txt")

binaries=("$build/kiln")
[ "$variant" = without-libtorch ] || binaries+=("$build/libkiln_parquet.so")
[ "$variant" = cpu ] || binaries+=("$build/libkiln_cuda.so")
[ "$variant" != without-libtorch ] || binaries+=("${@:3}")

# What CUDA's libraries and LibTorch open by a name that no linker sees.
opened_by_name=()
if [ "$variant" = cuda ]; then
  opened_by_name=("$root"/torch/lib/lib{torch_cuda_linalg,caffe2_nvrtc}.so "$root"/nvidia/cudnn/lib/libcudnn_*.so.9
    "$root"/nvidia/cu13/lib/libnvrtc{,-builtins}.so.13*)
fi

# "SONAME PATH" of all that `binaries` need, and of what is opened by name.
closure() {
  local path found
  found=$(ldd "${binaries[@]}" "${opened_by_name[@]}")
  # libcuda.so.1 is the driver's, of the machine that runs it.
  if grep 'not found' <<<"$found" | grep -v libcuda.so.1 >&2; then fail "these libraries are missing on this machine"; fi
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' <<<"$found"
  for path in "${opened_by_name[@]}"; do echo "$(basename "$path") $path"; done
}

is_left_out() {
  case $1 in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux* | libresolv.so.*) return 0 ;;
    libtorch* | libc10* | libcu* | libnv* | libnccl* | libgomp-*) [ "$variant" = without-libtorch ] ;;
    *) return 1 ;;
  esac
}

mkdir -p "$out/bin" "$out/lib"
cp "${binaries[@]}" "$out/bin/"
strip "$out"/bin/*
# Whatever run path the build machine had, the bundle's is its own lib folder.
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$out"/bin/*

origins=$(mktemp)
trap 'rm -f "$origins"' EXIT
closure | sort -u -k1,1 | while read -r name path; do
  if is_left_out "$name"; then continue; fi
  cp -L "$path" "$out/lib/$name"
  realpath "$path" >>"$origins"
  case $(realpath "$path") in
    "$(realpath "$root")"/nvidia/*) ;;  # its license has it passed on as it is
    "$(realpath "$root")"/* | "$(realpath "$arrow")"/*) strip --strip-unneeded "$out/lib/$name" ;;
    *) strip --strip-unneeded "$out/lib/$name" && patchelf --force-rpath --set-rpath '$ORIGIN' "$out/lib/$name" ;;
  esac
done

if [ "$variant" = without-libtorch ]; then
  cat >"$out/kiln" <<'LAUNCHER'
#!/bin/sh
# LibTorch's libraries find NVIDIA's by their own run path.
root=${KILN_TORCH_ROOT:?set it to the folder that holds torch/ and nvidia/}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
LD_LIBRARY_PATH=$root/torch/lib:$root/nvidia/nccl/lib:$root/nvidia/cu13/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
exec "$here/bin/kiln" "$@"
LAUNCHER
  chmod +x "$out/kiln"
else
  "$environment/components.py" "$root" "$arrow" "$origins" "$out"
  mkdir -p "$out/setup"
  cp "$environment"/image/* "$environment/packages-run.txt" "$out/setup/"
  (cd "$out" && find . -type f ! -name checksum -print0 | sort -z | xargs -0 sha256sum | sha256sum >checksum)
fi
echo "$out: $(du -sm "$out" | cut -f1) MB, $(find "$out/lib" -type f | wc -l) libraries"
