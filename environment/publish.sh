#!/usr/bin/env bash
# Make a release of the tagged commit that is checked out, and upload it (docs/releasing.md).
#
#   environment/publish.sh TAG OUT [--upload]      TAG: vVERSION, as in CMakeLists.txt
#
# OUT, which is new or empty, gets all that environment/release.sh makes, for CPUs and GPUs: the wheel, archives, images, a bill
# of materials of each, RELEASE.md and SHA256SUMS. Nothing leaves the machine without --upload, which wants gh, twine and the
# engine of the images (ENGINE, podman or docker) logged in, and REGISTRY, the folder of a registry that gets the images. All
# users see it at once: the page of the release is a draft until everything else is there.
set -euo pipefail

fail() { echo "publish.sh: $1" >&2; exit 1; }
usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 2 ] || usage
tag=$1 out=$(realpath -m "$2") upload=${3:-} engine=${ENGINE:-podman}
case $upload in '' | --upload) ;; *) usage ;; esac
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(kiln VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ "$tag" = "v$version" ] || fail "the tag is $tag, but CMakeLists.txt has version $version: the tag must be v$version"
[ "$(git rev-parse --quiet --verify "$tag^{commit}")" = "$(git rev-parse HEAD)" ] || fail "$tag is not what is checked out"
grep -qE "^## $version( |$)" CHANGELOG.md || fail "CHANGELOG.md has no section $version"
! grep -q "^## $version .*not released" CHANGELOG.md || fail "CHANGELOG.md says that $version is not released: give it a date"
[ -z "$(ls -A "$out" 2>/dev/null)" ] || fail "$out is not empty, and all that is in it would be uploaded"
if [ -n "$upload" ]; then
  for tool in gh twine "$engine"; do command -v "$tool" >/dev/null || fail "$tool is missing: docs/releasing.md"; done
  [ -n "${REGISTRY:-}" ] || fail "REGISTRY is not set: the registry and folder for the images, HOST/NAME"
fi

environment/release.sh "$out" cpu
environment/release.sh "$out" cuda archive image
(cd "$out" && sha256sum --check --strict --quiet SHA256SUMS)
for form in "kiln_trainer-$version-*.whl" "kiln-$version-"{linux-x86_64-,}{cpu,cuda}"*.tar*" "*.cdx.json"; do
  compgen -G "$out/$form" >/dev/null || fail "$out has no $form"
done
if [ -z "$upload" ]; then
  echo "$out is complete; with --upload it becomes the release $tag"
  exit
fi

gh release create "$tag" --draft --verify-tag --title "Kiln $version" --notes-file "$out/RELEASE.md" "$out"/kiln* "$out/SHA256SUMS"
for variant in cpu cuda; do
  $engine tag "localhost/kiln:$version-$variant" "$REGISTRY/kiln:$version-$variant"
  $engine push "$REGISTRY/kiln:$version-$variant"
done
twine upload "$out"/*.whl
gh release edit "$tag" --draft=false
