"""Helpers of the structure tests to read the source tree. Standard library only."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/flow"))

from flow import main  # noqa: E402, F401

SRC = ROOT / "src"


def cpp_files(folder):
    """C++ files below `folder`, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix in (".cpp", ".h"))


def numbered_lines(path):
    """Pairs of line number (from 1) and line."""
    return enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


def rows_of_table(text, first_header):
    """Rows of the Markdown table whose first column is called `first_header`, as lists of cells."""
    lines = iter(text.splitlines())
    if not any(line.startswith(f"| {first_header} |") for line in lines):
        raise ValueError(f"no table with the column '{first_header}'")
    next(lines)
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def backticked(cell):
    return re.findall(r"`([^`]+)`", cell)


class TreeTest(unittest.TestCase):
    def assert_none(self, faults, what):
        """Fails and shows `faults`, a list of lines, unless it is empty."""
        if faults:
            self.fail(what + ":\n  " + "\n  ".join(faults))
