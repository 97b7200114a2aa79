#!/usr/bin/env python3
"""How the program is hardened: position-independent, read-only relocations, stack protector, checked library calls."""
import os
import shutil
import subprocess
import sys
import unittest

KILN = os.environ.get("KILN", "build/release/kiln")


def readelf(option):
    return subprocess.run(["readelf", "-W", option, KILN], capture_output=True, text=True, check=True).stdout


class BinaryTest(unittest.TestCase):
    def test_position_independent(self):
        self.assertRegex(readelf("-h"), r"Type:\s+DYN")
        self.assertRegex(readelf("-d"), r"FLAGS_1.*\bPIE\b")

    def test_relocations_are_read_only_from_the_start(self):
        self.assertIn("GNU_RELRO", readelf("-l"))
        self.assertRegex(readelf("-d"), r"BIND_NOW|FLAGS_1.*\bNOW\b")

    def test_stack(self):
        self.assertIn("__stack_chk_fail", readelf("--dyn-syms"))
        stack = [line for line in readelf("-l").splitlines() if "GNU_STACK" in line]
        self.assertEqual(len(stack), 1)
        self.assertNotIn("E", stack[0].split()[-2], "the stack is not executable")

    def test_checked_library_calls(self):
        if os.environ.get("KILN_BUILD_TYPE", "Release") == "Debug":
            self.skipTest("they need optimization")
        self.assertRegex(readelf("--dyn-syms"), r"__(snprintf|memcpy|read|pread64|vsnprintf|fprintf)_chk")

    def test_checked_containers(self):
        self.assertIn("__glibcxx_assert_fail", readelf("--dyn-syms"))


if __name__ == "__main__":
    if shutil.which("readelf") is None or not os.path.exists(KILN):
        sys.exit(77)
    unittest.main()
