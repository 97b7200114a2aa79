#!/usr/bin/env python3
"""The newest glibc and libstdc++ that any file of a release needs: where it runs (docs/install.md) follows from them."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from release_case import NOT_BROUGHT, ROOT, made, main, require_night

sys.path.insert(0, str(ROOT / "environment"))
import symbols

MOST = {"GLIBC": symbols.MOST, "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (4, 3, 0)}
FUTURE = "GLIBC_9.99"  # no system has it


def elf_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value.to_bytes(4, "little")


class SymbolsTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-release-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.wheel = made("*.whl", "wheel")
        zipfile.ZipFile(self.wheel).extractall(self.folder)
        self.needs = symbols.needs_of_all(self.folder)

    def test_wheel(self):
        for runtime, most in MOST.items():
            self.assertEqual(max(need[runtime] for need in self.needs.values() if runtime in need), most)
        starter = next(need for path, need in self.needs.items() if path.name == "kiln")
        self.assertNotIn("GLIBCXX", starter)
        self.assertRegex(self.wheel.name, "manylinux_2_34_x86_64")

    def test_it_brings_the_runtime_that_it_needs(self):
        brought = subprocess.run(["readelf", "--wide", "--version-info", self.folder / "kiln_trainer/libstdc++.so.6"],
                                 capture_output=True, text=True, check=True).stdout.partition("Version needs")[0]
        self.assertRegex(brought, r"GLIBCXX_3\.4\.30\b")

    def test_libraries_run_where_glibc_is_older_than_what_they_were_made_for(self):
        newer = [path for path in self.needs if b"\0GLIBC_2.36\0" in path.read_bytes()]
        self.assertGreater(len(newer), 2)
        for path in newer:
            text = path.read_bytes().replace(b"GLIBC_2.36", FUTURE.encode()).replace(elf_hash("GLIBC_2.36"), elf_hash(FUTURE))
            path.write_bytes(text)
        program = f"""
import ctypes, os
for name in {[str(path) for path in newer]}: ctypes.CDLL(name, mode=os.RTLD_NOW)
random = ctypes.create_string_buffer(64)
ctypes.CDLL("{self.folder}/kiln_trainer/libkiln_random.so").arc4random_buf(random, 64)
assert len(set(random.raw)) > 16
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_wheel_is_small_and_has_no_libtorch(self):
        self.assertLess(self.wheel.stat().st_size, 35e6)
        names = [pathlib.PurePath(name).name for name in zipfile.ZipFile(self.wheel).namelist()]
        foreign = [name for name in names if name.startswith(("libtorch", "libc10", "libcu", "libnccl", "libarrow"))]
        self.assertEqual([name for name in foreign if name != "libcurl.so.4"], [])
        bill = self.wheel.with_suffix(".cdx.json").read_text()
        self.assertEqual([name for name in NOT_BROUGHT if name in " ".join(names) or name in bill], [])


if __name__ == "__main__":
    require_night()
    main()
