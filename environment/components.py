#!/usr/bin/env python3
"""Tells what the libraries of a bundle are parts of: OUT/bill-of-materials.cdx.json (CycloneDX), and the licenses of each
in OUT/licenses. In the file three lines precede the components, one a line, and one follows them.

    components.py LIBTORCH ARROW ORIGINS OUT      ORIGINS: the files that were copied, a path a line"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
from urllib.parse import quote

LISTS = pathlib.Path(__file__).parent
HEADERS_COMPILED_IN = ("nlohmann-json3-dev",)


def debian_package(path):
    """The package that owns `path`, which dpkg may know from before /usr was merged."""
    for name in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg", "-S", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    sys.exit(f"components.py: no Debian package owns {path}: install the library from one")


def debian_component(package, out):
    version = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                             check=True).stdout
    copy_licenses([pathlib.Path(f"/usr/share/doc/{package}/copyright")], out / "licenses" / package)
    return {"type": "library", "name": package, "version": version,
            "purl": f"pkg:deb/debian/{quote(package)}@{quote(version)}?distro=debian-12"}


def wheel_component(wheel, out):
    name, version = re.search(r"^Name: (.*)\nVersion: (.*)", (wheel / "METADATA").read_text(), re.M).groups()
    pins = "".join((LISTS / f"wheels-{part}.txt").read_text() for part in ("libtorch", "arrow"))
    pin = re.search(rf"^{name}==.*sha256:(\w+)", pins, re.M)
    inside = wheel.parent / "nvidia" / name.removeprefix("nvidia-").removesuffix("-cu13")
    copy_licenses([*wheel.glob("licenses/**/*"), *inside.glob("LICENSE*")], out / "licenses" / name)
    component = {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}
    return component | ({"hashes": [{"alg": "SHA-256", "content": pin[1]}]} if pin else {})


def copy_licenses(files, folder):
    files = [file for file in files if file.is_file()]
    if not files:
        sys.exit(f"components.py: no license was found for {folder.name}")
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        shutil.copy(file, folder / file.name)


def main():
    torch, arrow, origins, out = map(pathlib.Path, sys.argv[1:])
    owner = {root / line.split(",")[0]: wheel for root in (torch.resolve(), arrow.resolve())
             for wheel in root.glob("*.dist-info") for line in (wheel / "RECORD").read_text().splitlines()}
    wheels, packages = set(), set(HEADERS_COMPILED_IN)
    for path in origins.read_text().split():
        if wheel := owner.get(pathlib.Path(path)):
            wheels.add(wheel)
        else:
            packages.add(debian_package(path))
    components = [wheel_component(wheel, out) for wheel in sorted(wheels)]
    components += [debian_component(package, out) for package in sorted(packages)]
    version = re.search(r"^project\(kiln VERSION ([\d.]+)", (LISTS.parent / "CMakeLists.txt").read_text(), re.M)[1]
    program = {"component": {"type": "application", "name": "kiln", "version": version}}
    (out / "bill-of-materials.cdx.json").write_text(
        '{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,\n"metadata": ' + json.dumps(program) +
        ',\n"components": [\n' + ",\n".join(sorted(map(json.dumps, components))) + "\n]}\n")


if __name__ == "__main__":
    main()
