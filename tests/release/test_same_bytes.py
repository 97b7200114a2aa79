#!/usr/bin/env python3
"""Two checkouts of a commit, in folders of other lengths, give the same archive and the same wheel, without their paths."""
import os
import pathlib
import subprocess
import tarfile
import tempfile
import unittest

from release_case import ROOT, main, require_night


class SameBytesTest(unittest.TestCase):
    def test_two_checkouts(self):
        with tempfile.TemporaryDirectory(prefix="kiln-release-") as scratch:
            folders = [pathlib.Path(scratch) / name for name in ("a", "another-checkout")]
            for folder in folders:
                subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
                (folder / ".deps").symlink_to((ROOT / ".deps").resolve())
                subprocess.run([folder / "environment/release.sh", f"{folder}-out", "cpu", "archive", "wheel"], check=True,
                               capture_output=True, env={name: value for name, value in os.environ.items() if name != "KILN_BUILD"})
            sums = [pathlib.Path(f"{folder}-out/SHA256SUMS").read_text() for folder in folders]
            self.assertEqual(sums[0], sums[1])
            self.assertEqual(len(sums[0].splitlines()), 4)
            archive = next(pathlib.Path(f"{folders[1]}-out").glob("*.tar.gz"))
            for member in tarfile.open(archive):
                if member.isfile() and "kiln" in pathlib.PurePath(member.name).name:
                    self.assertNotIn(b"another-checkout", tarfile.open(archive).extractfile(member.name).read(), member.name)


if __name__ == "__main__":
    require_night()
    main()
