#!/usr/bin/env python3
"""Prints the newest version of the C and C++ runtimes that the files of a folder need, with the files that need it, and the
files that need more than other systems have: which systems a release runs on follows from these numbers.

    symbols.py FOLDER [GLIBC]      ends with 1 if a file needs more than this version of glibc; default 2.34"""
import pathlib
import re
import subprocess
import sys

RUNTIMES = ("GLIBC", "GLIBCXX", "CXXABI", "GCC")
MOST = (2, 34)  # glibc of RHEL 9 and Fedora 35 (docs/install.md)


def needs_of(file):
    """Runtime -> newest version, as a tuple, that `file` needs of a library outside."""
    text = subprocess.run(["readelf", "--wide", "--version-info", file], capture_output=True, text=True, check=True).stdout
    found = re.findall(rf"Name: ({'|'.join(RUNTIMES)})_([\d.]+)  Flags: none", text.partition("Version needs")[2])
    return {runtime: max(tuple(map(int, number.split("."))) for name, number in found if name == runtime)
            for runtime in {name for name, _ in found}}


def needs_of_all(folder):
    """Path -> needs_of() of every program and library below `folder`."""
    return {path: needs_of(path) for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.is_symlink() and begins_as_elf(path)}


def begins_as_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def dotted(version):
    return ".".join(map(str, version))


def functions_above(most, file):
    """Name -> version of what `file` calls of a newer glibc than `most`: {"hypot": (2, 35)}."""
    listed = subprocess.run(["readelf", "--wide", "--dyn-syms", file], capture_output=True, text=True, check=True).stdout
    found = {name: tuple(map(int, number.split("."))) for name, number in re.findall(r" UND (\w+)@GLIBC_([\d.]+)", listed)}
    return {name: version for name, version in found.items() if version > most}


def main():
    folder, most = pathlib.Path(sys.argv[1]), tuple(map(int, sys.argv[2].split("."))) if sys.argv[2:] else MOST
    needs = needs_of_all(folder)
    for runtime in RUNTIMES:
        newest = max((need[runtime] for need in needs.values() if runtime in need), default=None)
        if newest is None:
            continue
        print(runtime, dotted(newest), *(path.name for path, need in needs.items() if need.get(runtime) == newest))
    too_new = [path for path, need in needs.items() if need.get("GLIBC", ()) > most]
    for path in too_new:
        named = (f"{name} of {dotted(version)}" for name, version in functions_above(most, path).items())
        print(f"symbols.py: {path.name} needs more than glibc {dotted(most)}: {', '.join(named)}", file=sys.stderr)
    sys.exit(1 if too_new else 0)


if __name__ == "__main__":
    main()
