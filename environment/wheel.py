#!/usr/bin/env python3
"""Makes a wheel of a bundle (bundle.sh --whole wheel). Standard library only; equal input gives equal bytes.

    wheel.py BUNDLE OUT VERSION GLIBC      GLIBC: the oldest that its files run with, such as 2.34

The wheel has the program as a script, everything else in the package `kiln_trainer`, where the program finds it, and takes
LibTorch from the wheel `torch` and Parquet from `pyarrow`. SOURCE_DATE_EPOCH is the time of its files."""
import base64
import hashlib
import os
import pathlib
import re
import sys
import time
import zipfile

DISTRIBUTION = "kiln-trainer"  # `kiln` is taken
PACKAGE = "kiln_trainer"  # src/base/platform/installation.cpp looks there
LISTS = pathlib.Path(__file__).parent
MODULE = LISTS.parent / "python" / PACKAGE


def pinned(name):
    pins = "".join((LISTS / f"wheels-{part}.txt").read_text() for part in ("libtorch", "arrow"))
    return re.search(rf"^{name}==(\d+\.\d+)\.", pins, re.M)[1]


def metadata(version):
    return f"""Metadata-Version: 2.1
Name: {DISTRIBUTION}
Version: {version}
Summary: Kiln trains image classifiers: `kiln train photos`, or `import kiln_trainer`
License: Apache-2.0
Requires-Python: >=3.10
Requires-Dist: torch=={pinned("torch")}.*
Provides-Extra: parquet
Requires-Dist: pyarrow=={pinned("pyarrow")}.*; extra == "parquet"
Classifier: Environment :: Console
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Description-Content-Type: text/markdown

`kiln train photos` trains an image classifier on the CPU or on GPUs; `kiln score photo.jpg` uses it. The program is C++ and
uses the libraries of the `torch` package; `{DISTRIBUTION}[parquet]` reads buckets and Parquet files, too. From Python:

    import kiln_trainer as kiln

    run = kiln.train("photos", run_path="runs/a")
    print(run.model.predict(["photo.jpg"])[0].label)
"""


def content(bundle, name):
    """Path in the wheel -> file."""
    places = {"bin": f"{name}.data/scripts", "share": f"{name}.data/data/share", "lib": PACKAGE,
              "licenses": f"{name}.dist-info/licenses", "bill-of-materials.cdx.json": f"{name}.dist-info/sboms",
              "LICENSE": f"{name}.dist-info/licenses"}
    for top, place in places.items():
        path = bundle / top
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                yield f"{place}/{file.relative_to(path if path.is_dir() else bundle)}", file
    for file in sorted(MODULE.glob("*.py*")):
        if file.is_file():
            yield f"{PACKAGE}/{file.name}", file


def main():
    bundle, out, version, glibc = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
    name, tag = f"{PACKAGE}-{version}", f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    record = []
    wheel = out / f"{name}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def add(path, data, mode=0o644):
            entry = zipfile.ZipInfo(path, when)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, (0o100000 | mode) << 16, 3
            archive.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(data)}\n")

        for path, file in content(bundle, name):
            add(path, file.read_bytes(), 0o755 if file.parent.name == "bin" else 0o644)
        add(f"{name}.dist-info/METADATA", metadata(version).encode())
        add(f"{name}.dist-info/WHEEL", f"Wheel-Version: 1.0\nGenerator: kiln\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
        record.append(f"{name}.dist-info/RECORD,,\n")
        entry = zipfile.ZipInfo(f"{name}.dist-info/RECORD", when)
        entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, 0o100644 << 16, 3
        archive.writestr(entry, "".join(record))
    print(wheel)


if __name__ == "__main__":
    main()
