#!/bin/sh
# Makes a bare Debian 12 run the bundle that this is part of (bundle.sh --whole): the packages, then what of the bundle they
# do not bring, under /opt/kiln. Meant for the image; as root. HEIC=1 adds what reads HEIC photos.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
bundle=$(dirname "$here")
export DEBIAN_FRONTEND=noninteractive

apt-get update -q
heif=
[ "${HEIC:-0}" = 0 ] || heif=libheif1
xargs -a "$here/packages-run.txt" apt-get install -q -y --no-install-recommends $heif
# The server made keys for itself; those of a job come from its mount.
rm -rf /etc/ssh/ssh_host_* /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/*-old /var/log/*

mkdir -p /opt/kiln/lib /run/sshd
useradd --no-log-init --uid 10001 --gid 0 --home-dir /tmp --no-create-home kiln
cp -r "$bundle/bin" "$bundle/licenses" /opt/kiln/
cp -r "$bundle/share" /usr/local/
system=$(ldconfig -p)
for library in "$bundle"/lib/*.so*; do
  case $system in *"$(basename "$library") "*) ;; *) cp "$library" /opt/kiln/lib/ ;; esac
done
ln -s /opt/kiln/bin/kiln /usr/local/bin/kiln
cp "$here/openmpi-mca-params.conf" /etc/openmpi/
cp "$here/sshd.conf" /etc/ssh/sshd_config.d/kiln.conf
cp "$here/sshd_user.conf" /etc/ssh/sshd_user_config
cp "$here/ssh.conf" /etc/ssh/ssh_config.d/kiln.conf

# The bill of materials: that of the bundle, and the system's packages.
escape='s/+/%2B/g; s/:/%3A/g'
bill=$bundle/bill-of-materials.cdx.json
{
  head -n 3 "$bill"
  {
    sed '1,3d; $d; s/,$//' "$bill"
    dpkg-query -W -f '${Package} ${Version}\n' | while read -r name version; do
      printf '{"type": "library", "name": "%s", "version": "%s", "purl": "pkg:deb/debian/%s@%s?distro=debian-12"}\n' \
        "$name" "$version" "$(echo "$name" | sed "$escape")" "$(echo "$version" | sed "$escape")"
    done
  } | sort -u | sed '$!s/$/,/'
  echo ']}'
} >/opt/kiln/bill-of-materials.cdx.json

# libcuda.so.1 is the driver's, of the machine that runs it.
missing=$(ldd /opt/kiln/bin/* /opt/kiln/lib/* | grep 'not found' | grep -v libcuda.so.1 | sort -u || true)
[ -z "$missing" ] || { echo "libraries are missing in the image: $missing" >&2; exit 1; }
