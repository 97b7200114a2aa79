#!/usr/bin/env python3
"""How the program is hardened: position-independent, read-only relocations, stack protector, checked library calls. And
that it runs on the systems of docs/install.md."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from tree import ROOT, main

sys.path.insert(0, str(ROOT / "environment"))
import symbols

KILN = os.environ.get("KILN", "build/release/kiln")

LIBRARY = os.path.join(os.path.dirname(KILN), "libkiln.so")


def readelf(option, file=KILN):
    return subprocess.run(["readelf", "-W", option, file], capture_output=True, text=True, check=True).stdout


class BinaryTest(unittest.TestCase):
    def test_position_independent(self):
        self.assertRegex(readelf("-h"), r"Type:\s+DYN")
        self.assertRegex(readelf("-d"), r"FLAGS_1.*\bPIE\b")

    def test_relocations_are_read_only_from_the_start(self):
        for file in (KILN, LIBRARY):
            self.assertIn("GNU_RELRO", readelf("-l", file))
            self.assertRegex(readelf("-d", file), r"BIND_NOW|FLAGS_1.*\bNOW\b")

    def test_stack(self):
        for file in (KILN, LIBRARY):
            self.assertIn("__stack_chk_fail", readelf("--dyn-syms", file))
            stack = [line for line in readelf("-l", file).splitlines() if "GNU_STACK" in line]
            self.assertEqual(len(stack), 1)
            self.assertNotIn("E", stack[0].split()[-2], "the stack is not executable")

    def test_checked_library_calls(self):
        if os.environ.get("KILN_BUILD_TYPE", "Release") == "Debug":
            self.skipTest("they need optimization")
        for file in (KILN, LIBRARY):
            self.assertRegex(readelf("--dyn-syms", file), r"__(snprintf|memcpy|read|pread64|vsnprintf|fprintf)_chk")

    def test_checked_containers(self):
        self.assertIn("__glibcxx_assert_fail", readelf("--dyn-syms", LIBRARY))

    def test_the_starter_needs_the_c_library_alone(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", readelf("-d"))
        self.assertLessEqual(set(needed), {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"})

    def test_the_library_shows_its_entry_alone(self):
        shown = re.findall(r"(?:FUNC|OBJECT) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)", readelf("--dyn-syms", LIBRARY))
        self.assertEqual(sorted(shown), ["kiln_main", "kiln_version"])

    def test_heic_is_left_to_the_system(self):
        """bundle.sh takes what ldd names; libheif is opened where a system has it."""
        parts = [KILN, *map(str, pathlib.Path(KILN).parent.glob("libkiln*.so"))]
        linked = subprocess.run(["ldd", *parts], capture_output=True, text=True, check=True).stdout
        self.assertIn("libjpeg", linked)
        self.assertEqual([line for line in linked.splitlines() if re.search(r"libheif|libde265|libx265", line)], [])

    def test_nothing_is_called_that_older_systems_lack(self):
        """Whose glibc is older than the one that it was built with."""
        built = [pathlib.Path(KILN), *pathlib.Path(KILN).parent.glob("libkiln*.so")]
        built = [path for path in built if path.name != "libkiln_faults.so"]  # of tests
        self.assertGreater(len(built), 1)
        self.assertEqual({path.name: newer for path in built if (newer := symbols.functions_above(symbols.MOST, path))}, {})

    def test_a_release_that_needs_more_fails(self):
        """As in environment/release.sh."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(KILN, folder)
            tried = {most: subprocess.run([ROOT / "environment/symbols.py", folder, most], capture_output=True, text=True)
                     for most in ("2.34", "2.2.5")}
        self.assertEqual(tried["2.34"].returncode, 0, tried["2.34"].stderr)
        self.assertEqual(tried["2.2.5"].returncode, 1)
        self.assertRegex(tried["2.2.5"].stderr, r"kiln needs more than glibc 2\.2\.5: \w+")


if __name__ == "__main__":
    if shutil.which("readelf") is None or not os.path.exists(KILN):
        sys.exit(77)
    main()
