#!/usr/bin/env bash
# Gather the program and the shared libraries that a bare Linux lacks into one folder that can be copied.
#
#   environment/bundle.sh OUT [BUILD]      BUILD defaults to build/release
#
# Left out: glibc's own libraries, and LibTorch's and NVIDIA's. On the other machine set KILN_TORCH_ROOT to a folder
# with torch/ and nvidia/ (environment/wheels-libtorch.txt says how it is made) and run OUT/kiln.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$1
build=${2:-$(dirname "$0")/../build/release}
[ -x "$build/kiln" ] || { echo "bundle.sh: $build/kiln is not there: build first" >&2; exit 1; }

mkdir -p "$out/bin" "$out/lib"
cp "$build/kiln" "$build/libkiln_cuda.so" "$out/bin/"
strip "$out/bin/kiln" "$out/bin/libkiln_cuda.so"
# Whatever run path the build machine had, the bundle's is its own lib folder.
patchelf --force-rpath --set-rpath '$ORIGIN/../lib' "$out/bin/kiln" "$out/bin/libkiln_cuda.so"

ldd "$build/kiln" "$build/libkiln_cuda.so" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  while read -r library; do
    case $(basename "$library") in
      libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | ld-linux* | libresolv.so.*) ;;
      libtorch* | libc10* | libcu* | libnv* | libnccl* | libgomp-*) ;;
      *) cp -L "$library" "$out/lib/" ;;
    esac
  done
strip --strip-unneeded "$out"/lib/* 2>/dev/null || true
patchelf --force-rpath --set-rpath '$ORIGIN' "$out"/lib/*

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
echo "$out: $(du -sm "$out" | cut -f1) MB, $(find "$out/lib" -type f | wc -l) libraries"
