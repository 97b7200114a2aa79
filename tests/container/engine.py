"""Podman with a store of its own, bare Debian systems made for it, and the image of kiln. Where this machine cannot do
that, `reason_against()` says why."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
BASE = "localhost/kiln-base:bookworm"
TOOLS = ("podman", "runc", "mmdebstrap")
# As slim as debian:bookworm-slim.
SLIM = ["--format=tar", "--variant=minbase", '--aptopt=APT::Install-Recommends "false"', "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-include=/usr/share/doc/*/copyright", "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*"]
OF_SUITE = {"bookworm": ["--include=usr-is-merged", "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"], "trixie": []}
# What runc is not allowed to raise inside of another container.
LIMITS = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]


class Engine:
    """`cache` keeps the bases between runs; everything else is gone with close()."""

    def __init__(self, cache):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-store-"))
        self.cache = cache
        (self.folder / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{self.folder}/store"\nrunroot = "{self.folder}/run"\n')
        self.environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
                            "BUILDAH_ISOLATION": "chroot", "ENGINE": "podman", "BASE_IMAGE": BASE}

    def call(self, *words, timeout=600, **settings):
        """`settings` are variables of the environment."""
        return subprocess.run([*map(str, words)], capture_output=True, text=True, env={**self.environment, **settings},
                              timeout=timeout)

    def check(self, *words, **settings):
        done = self.call(*words, **settings)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def podman(self, *words):
        return self.call("podman", "--runtime", "runc", *words)

    def in_place_of_docker(self):
        """A program that `docker run` may stand for."""
        program = self.folder / "docker"
        program.write_text(f'#!/bin/sh\nshift\nexec podman --runtime runc run {" ".join(LIMITS)} "$@"\n')
        program.chmod(0o755)
        return program

    def reason_against(self):
        if os.geteuid() != 0:
            return "containers are made here by root alone"
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            return f"{', '.join(missing)} not installed"
        try:
            self.base("bookworm")
        except AssertionError as fault:
            return f"the Debian base cannot be made: {str(fault)[-300:]}"
        tried = self.podman("run", "--rm", "--network", "none", *LIMITS, BASE, "true")
        return f"a container cannot be started: {tried.stderr[-300:]}" if tried.returncode != 0 else None

    def base(self, suite, *packages):
        """The name of an image of a bare Debian with `packages`."""
        name = "-".join((suite, *packages))
        archive = self.cache / f"base-{name}.tar"
        if not archive.exists():
            self.check("mmdebstrap", *SLIM, *OF_SUITE[suite], *(f"--include={package}" for package in packages), suite,
                       f"{archive}.part", timeout=1800)
            os.rename(f"{archive}.part", archive)
        self.check("podman", "import", archive, f"localhost/kiln-base:{name}")
        return f"localhost/kiln-base:{name}"

    def build(self, variant, *folder, tag=None, **settings):
        image = f"localhost/kiln:{tag or variant}"
        self.check(ROOT / "environment/build-image.sh", variant, image, *folder, timeout=3600, **settings)
        return image

    def inspect(self, image):
        return json.loads(self.check("podman", "inspect", image))[0]

    def close(self):
        if shutil.which("podman"):
            self.podman("rm", "--all", "--force", "--time", "0")
            self.podman("rmi", "--all", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)
