#!/usr/bin/env bash
# Make what a release publishes from the commit that is checked out: two runs give equal bytes.
#
#   environment/release.sh OUT [cpu|cuda [FORM…]]      FORM: archive, wheel, image; default: all of them
#
# OUT gets kiln-VERSION-linux-x86_64-cpu.tar.gz, the wheel (one for CPUs and GPUs), kiln-VERSION-cpu.oci.tar, the bill of
# materials of each, RELEASE.md and SHA256SUMS of all that lies there. A file of more than 1.9 GB is split.
# KILN_BUILD names a build folder to take as it is, as tests do. The image is built with BASE_IMAGE and ENGINE
# (build-image.sh), podman or docker.
set -euo pipefail

fail() { echo "release.sh: $1" >&2; exit 1; }
[ $# -ge 1 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
variant=${2:-cpu}
case $variant in cpu | cuda) ;; *) fail "$variant: cpu or cuda" ;; esac
forms=("${@:3}")
[ ${#forms[@]} -gt 0 ] || forms=(archive wheel image)
for form in "${forms[@]}"; do
  case $form in archive | wheel | image) ;; *) fail "$form: archive, wheel or image" ;; esac
done
for tool in cmake git patchelf readelf strip gcc ompi_info orterun dpkg-query python3; do
  command -v $tool >/dev/null || fail "$tool is missing: environment/install.sh installs what a release needs"
done
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
[ -n "${KILN_BUILD:-}" ] || [ -z "$(git status --porcelain)" ] || fail "this checkout has changes: commit them, or take a clean one"
version=$(sed -n 's/^project(kiln VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
commit=$(git rev-parse --short=10 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
# Files get their final names when all are complete.
{ mkdir -p "$out" && work=$(mktemp -d "$out/.release.XXXXXX"); } 2>/dev/null || fail "$out cannot be written: give another folder"
trap 'rm -rf "$work"' EXIT
made=$work/made
mkdir "$made"

build=${KILN_BUILD:-$PWD/build/package}
if [ -z "${KILN_BUILD:-}" ]; then
  # A run path of the build machine would leave its length in the file.
  cmake --preset release -B "$build" -DKILN_COMMIT="$commit" -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
    -DCMAKE_INSTALL_RPATH='$ORIGIN/../lib' >/dev/null
  cmake --build "$build" --target kiln
fi

make_bundle() { # FORM: cpu, cuda or wheel
  local bundle=$work/$1/bundle
  [ ! -d "$bundle" ] || return 0
  environment/bundle.sh --whole "$1" "$bundle" "$build"
  environment/symbols.py "$bundle"
}

make_archive() {
  local name=kiln-$version-linux-x86_64-$variant
  make_bundle "$variant"
  tar --create --directory "$work/$variant" --transform "s|^bundle|$name|" --sort=name --owner=0 --group=0 --numeric-owner \
    --mode='u=rwX,go=rX' --mtime="@$SOURCE_DATE_EPOCH" --exclude=bundle/{setup,checksum} bundle |
    gzip -n >"$made/$name.tar.gz"
  cp "$work/$variant/bundle/bill-of-materials.cdx.json" "$made/$name.cdx.json"
  split_large "$made/$name.tar.gz"
}

make_wheel() {
  make_bundle wheel
  local glibc wheel
  glibc=$(environment/symbols.py "$work/wheel/bundle" | awk '$1 == "GLIBC" {print $2}')
  wheel=$(environment/wheel.py "$work/wheel/bundle" "$made" "$version" "$glibc")
  cp "$work/wheel/bundle/bill-of-materials.cdx.json" "${wheel%.whl}.cdx.json"
}

make_image() {
  local image=localhost/kiln:$version-$variant file=$made/kiln-$version-$variant.oci.tar engine=${ENGINE:-podman} container
  make_bundle "$variant"
  ENGINE=$engine environment/build-image.sh "$variant" "$image" "$work/$variant"
  case $engine in
    podman) podman save --quiet --format oci-archive --output "$file" "$image" ;;
    docker) docker save --output "$file" "$image" ;;
    *) fail "an image is saved with podman or docker, not with $engine" ;;
  esac
  container=$($engine create "$image")
  $engine cp "$container:/opt/kiln/bill-of-materials.cdx.json" "${file%.oci.tar}-image.cdx.json"
  $engine rm "$container" >/dev/null
  split_large "$file"
}

split_large() {
  [ "$(stat -c %s "$1")" -gt 1900000000 ] || return 0
  split --bytes=1900M --numeric-suffixes "$1" "$1."
  rm "$1"
}

for form in "${forms[@]}"; do "make_$form"; done
# The changes of this version, without its title.
awk -v version="$version" '/^## / {found = $2 == version; next} found' CHANGELOG.md >"$made/RELEASE.md"
rm -f "$out/SHA256SUMS"
mv "$made"/* "$out/"
(cd "$out" && find . -maxdepth 1 -name 'kiln*' -printf '%f\n' | LC_ALL=C sort | xargs sha256sum) >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" "$out/"
ls -l "$out"
