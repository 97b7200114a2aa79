#!/usr/bin/env bash
# Gather the program and the shared libraries that another machine lacks into one folder that can be copied.
#
#   environment/bundle.sh OUT [BUILD [PROGRAM…]]          without LibTorch's, NVIDIA's, Arrow's and OpenCV's libraries: on the other machine set
#                                                         KILN_TORCH_ROOT to a folder with torch/ and nvidia/
#                                                         (wheels-libtorch.txt says how it is made) and run OUT/kiln.
#                                                         PROGRAM: another one of BUILD, which OUT/bin then has too
#   environment/bundle.sh --whole cpu|cuda OUT [BUILD]    with them, the man page, completions, licenses, the bill of materials
#                                                         and OUT/setup/install.sh, which makes a bare Debian 12 run it: what
#                                                         releases and the image are made of; cpu leaves the GPU module and its
#                                                         libraries out
#   environment/bundle.sh --whole wheel OUT [BUILD]       the same without what other wheels bring (LibTorch, NVIDIA, Arrow)
#
# OUT is new or empty. OUT/bin has the program, OUT/lib all that it opens, and Open MPI. BUILD defaults to build/release. glibc's own libraries stay behind.
set -euo pipefail

usage() { sed -n '2,15p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
fail() { echo "bundle.sh: $1" >&2; exit 1; }

variant=without-libtorch
if [ "${1:-}" = --whole ]; then
  variant=${2:-}
  case $variant in cpu | cuda | wheel) shift 2 ;; *) usage ;; esac
fi
[ $# -ge 1 ] || usage
out=$1
environment=$(cd "$(dirname "$0")" && pwd)
build=${2:-$environment/../build/release}
[ -x "$build/kiln" ] || fail "$build/kiln is not there: build first"
if [ -n "$(ls -A "$out" 2>/dev/null)" ]; then fail "$out is not empty, and what is in it would stay in the bundle: remove it"; fi
root=$(sed -n 's/^KILN_TORCH_ROOT:PATH=//p' "$build/CMakeCache.txt")
arrow=$(sed -n 's/^KILN_ARROW_ROOT:PATH=//p' "$build/CMakeCache.txt")

programs=("$build/kiln")
[ "$variant" != without-libtorch ] || programs+=("${@:3}")
modules=("$build/libkiln.so" "$build/libkiln_onednn.so")
[ "$variant" = without-libtorch ] || modules+=("$build"/libkiln_{arrow,pictures}.so)
[ "$variant" = cpu ] || modules+=("$build/libkiln_cuda.so")

# What CUDA's libraries and LibTorch open by a name that no linker sees.
opened_by_name=()
if [ "$variant" = cuda ]; then
  opened_by_name=("$root"/torch/lib/lib{torch_cuda_linalg,caffe2_nvrtc}.so "$root"/nvidia/cudnn/lib/libcudnn_*.so.9
    "$root"/nvidia/cu13/lib/libnvrtc{,-builtins}.so.13*)
fi

# Open MPI finds its plug-ins and texts below OPAL_PREFIX, which stands for /usr. The plug-ins of networks other than TCP, of
# OpenSHMEM, of MPI's files and for monitoring stay behind.
mpi=()
for plugin in "$(ompi_info --parsable --path pkglibdir | sed 's/.*://')"/*.so; do
  case ${plugin##*/mca_} in
    *_ucx.so | *ofi.so | *psm*.so | *openib.so | *netlink.so | *monitoring.so) ;;
    atomic_* | memheap_* | scoll_* | spml_* | sshmem_* | io_* | fbtl_* | fcoll_* | fs_* | sharedfp_* | lib*) ;;
    *) mpi+=("$plugin") ;;
  esac
done

# "SONAME PATH" of all that is needed, and of what is opened by name. Of the libraries that Debian has for BLAS and LAPACK, the
# reference ones: small, with one thread, and the same on every machine.
system=/usr/lib/x86_64-linux-gnu
closure() {
  local path found
  found=$(LD_LIBRARY_PATH=$root/torch/lib:$root/nvidia/cu13/lib:$root/nvidia/nccl/lib:$arrow/pyarrow:$system/blas:$system/lapack \
    ldd "${programs[@]}" "${modules[@]}" "${opened_by_name[@]}" "${mpi[@]}" $(command -v orterun orted))
  # libcuda.so.1 is the driver's, of the machine that runs it.
  if grep 'not found' <<<"$found" | grep -v libcuda.so.1 >&2; then fail "these libraries are missing on this machine"; fi
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' <<<"$found"
  for path in "${opened_by_name[@]}"; do echo "$(basename "$path") $path"; done
}

is_left_out() {
  case $1 in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libutil.so.* | ld-linux* | libresolv.so.*) return 0 ;;
    # Debian's needs glibc 2.35, and every system with glibc has one.
    libgcc_s.*) [ "$variant" != without-libtorch ] ;;
    # Of a library that make_no_screen() replaces.
    libGLdispatch.* | libX11.* | libxcb.* | libXau.* | libXdmcp.* | libbsd.* | libmd.*) return 0 ;;
    libcurl.*) return 1 ;;
    libtorch* | libc10* | libcu* | libnv* | libnccl* | libgomp-*) [ "$variant" = without-libtorch ] || [ "$variant" = wheel ] ;;
    libgomp.* | libarrow.* | libarrow_s3.* | libparquet.*) [ "$variant" = wheel ] ;;
    *) return 1 ;;
  esac
}

origins=$(mktemp)
trap 'rm -f "$origins"' EXIT

install_binary() { # FROM TO [RUN PATH beside lib]: stripped, and with no run path but lib
  local to=$2 lib
  mkdir -p "$(dirname "$to")"
  cp -L "$1" "$to"
  strip --strip-unneeded "$to"
  lib=$(realpath -ms --relative-to="$(dirname "$to")" "$out/lib")
  lib=\$ORIGIN/$lib
  patchelf --force-rpath --set-rpath "${lib%/.}${3:+:$3}" "$to"
}

for program in "${programs[@]}"; do install_binary "$program" "$out/bin/$(basename "$program")"; done
for module in "${modules[@]}"; do
  beside=
  # In the folder for Python packages that has the wheel's folder, too.
  if [ "$variant" = wheel ]; then
    case $module in
      */libkiln_arrow.so) beside='$ORIGIN/../pyarrow' ;;
      */libkiln_cuda.so) beside='$ORIGIN/../torch/lib:$ORIGIN/../nvidia/cu13/lib:$ORIGIN/../nvidia/nccl/lib' ;;
    esac
  fi
  install_binary "$module" "$out/lib/$(basename "$module")" "$beside"
done

# libxml2, for libarchive and hwloc, links ICU for rare encodings of XML; its tables are 31 MB. ICU takes an empty table.
make_empty_icu_data() { # FILE
  local number=${1##*.}
  gcc -shared -fPIC -s -x c - -Wl,-soname,"$(basename "$1")" -o "$1" <<SOURCE
const struct {
  unsigned short header_size; unsigned char magic[2];
  unsigned short size, reserved; unsigned char is_big_endian, charset, char_size, reserved_byte;
  unsigned char format[4], format_version[4], data_version[4], padding[8];
  unsigned int count, reserved_count;
} icudt${number}_dat = {32, {0xda, 0x27}, 20, 0, 0, 0, 2, 0, {'T', 'o', 'C', 'P'}, {1, 0, 0, 0}, {0}, {0}, 0, 0};
SOURCE
}

# OpenCV asks libGLX whether a window of OpenGL is open, and this program opens none.
make_no_screen() { # FILE
  gcc -shared -fPIC -s -x c - -Wl,-soname,"$(basename "$1")" -o "$1" <<SOURCE
void* glXGetCurrentContext(void) { return 0; }
void* glXGetCurrentDisplay(void) { return 0; }
void* glXGetProcAddressARB(const unsigned char* name) { return (void)name, (void*)0; }
SOURCE
}

closure | sort -u -k1,1 | while read -r name path; do
  if is_left_out "$name" || [ "$name" = libkiln.so ]; then continue; fi
  if [ "$name" = libGLX.so.0 ]; then make_no_screen "$out/lib/$name"; continue; fi
  realpath "$path" >>"$origins"
  case $name:$(realpath "$path") in
    libicudata.so.*) make_empty_icu_data "$out/lib/$name" ;;
    *:"$(realpath "$root")"/nvidia/*) cp -L "$path" "$out/lib/$name" ;;  # its license has it passed on as it is
    *:"$(realpath "$root")"/* | *:"$(realpath "$arrow")"/*) strip --strip-unneeded "$path" -o "$out/lib/$name" ;;
    *) install_binary "$path" "$out/lib/$name" ;;
  esac
done

prefix=$out/lib/openmpi
install_binary "$(command -v orterun)" "$prefix/bin/mpirun"
install_binary "$(command -v orted)" "$prefix/bin/orted"
for plugin in "${mpi[@]}"; do install_binary "$plugin" "$prefix${plugin#/usr}"; done
mkdir -p "$prefix/etc" "$prefix/share/openmpi"
cp "$environment/image/openmpi-mca-params.conf" "$prefix/etc/"
cp /usr/share/openmpi/help-*.txt "$prefix/share/openmpi/"
realpath "$(command -v orterun)" "${mpi[@]}" /usr/share/openmpi/help-orterun.txt >>"$origins"

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
  "$environment/older_systems.py" "$out/lib"
  "$environment/components.py" "$root" "$arrow" "$origins" "$out"
  cp "$environment/../LICENSE" "$out/"
  cp -r "$build/share" "$out/"
  mkdir -p "$out/setup"
  cp "$environment"/image/* "$environment/packages-run.txt" "$out/setup/"
  (cd "$out" && find . -type f ! -name checksum -print0 | sort -z | xargs -0 sha256sum | sha256sum >checksum)
fi
echo "$out: $(du -sm "$out" | cut -f1) MB, $(find "$out/lib" -type f | wc -l) libraries"
