#!/usr/bin/env python3
"""The newest glibc and libstdc++ that any file of a release needs: where it runs (docs/install.md) follows from them."""
import pathlib
import sys
import tempfile
import unittest
import zipfile

from release_case import ROOT, made, require_night

sys.path.insert(0, str(ROOT / "environment"))
import symbols

MOST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}
ABOVE_2_34 = {"libarchive.so.13", "libevent_core-2.1.so.7"}  # for arc4random, which neither calls here


class SymbolsTest(unittest.TestCase):
    def test_wheel(self):
        wheel = made("*.whl", "wheel")
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(wheel).extractall(folder)
            needs = symbols.needs_of_all(pathlib.Path(folder))
        for runtime, most in MOST.items():
            self.assertEqual(max(need[runtime] for need in needs.values() if runtime in need), most)
        self.assertEqual({path.name for path, need in needs.items() if need.get("GLIBC", ()) > (2, 34)}, ABOVE_2_34)
        starter = next(need for path, need in needs.items() if path.name == "kiln")
        self.assertLessEqual(starter["GLIBC"], (2, 34))
        self.assertIn("manylinux_2_36_x86_64", wheel.name)

    def test_wheel_is_small_and_has_no_libtorch(self):
        wheel = made("*.whl", "wheel")
        self.assertLess(wheel.stat().st_size, 35e6)
        names = [pathlib.PurePath(name).name for name in zipfile.ZipFile(wheel).namelist()]
        foreign = [name for name in names if name.startswith(("libtorch", "libc10", "libcu", "libnccl", "libarrow", "libstdc"))]
        self.assertEqual([name for name in foreign if name != "libcurl.so.4"], [])


if __name__ == "__main__":
    require_night()
    unittest.main()
