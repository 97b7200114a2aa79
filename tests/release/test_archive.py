#!/usr/bin/env python3
"""The archive on bare systems: unpacked anywhere, it trains with one and two ranks, scores and writes its report."""
import pathlib
import tempfile

from release_case import FIRST_MINUTE, OUT, ROOT, USERS, ReleaseTest, made, main, require_night, start_engine

UNPACK = "tar xzf /release/kiln-*.tar.gz; PATH=$(echo $PWD/kiln-*/bin):$PATH\n"


def setUpModule():
    start_engine()
    made("*.tar.gz", "archive")


class ArchiveTest(ReleaseTest):
    def test_bare_systems(self):
        for suite in ("bookworm", "trixie"):
            base = self.engine.base(suite)
            for user in USERS:
                with self.subTest(suite=suite, user=user):
                    self.assert_soon(self.assert_done(self.run_bare(base, UNPACK + FIRST_MINUTE, user=user)), f"{suite}, {user}")

    def test_pages_and_bill_are_in_it(self):
        listed = self.assert_done(self.run_bare(self.engine.base("bookworm"), UNPACK + "cd kiln-*; find . -type f"))
        for file in ("share/man/man1/kiln.1", "share/bash-completion/completions/kiln", "share/zsh/site-functions/_kiln",
                     "share/fish/vendor_completions.d/kiln.fish", "share/kiln/train.schema.json", "bill-of-materials.cdx.json",
                     "LICENSE"):
            self.assertIn(f"./{file}\n", listed)
        self.assert_brings_no_heic(listed, next(OUT.glob("*-cpu.cdx.json")).read_text())

    def test_heic_with_the_systems_libheif(self):
        """Which needs a newer C++ runtime than that of the archive where the system is newer."""
        photo = (ROOT / "tests/fuzz/seeds/heic/photo.heic").read_bytes()
        for suite, packages in (("bookworm", ["libheif1"]), ("trixie", ["libheif1", "libheif-plugin-libde265"])):
            with self.subTest(suite=suite), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "photo.heic").write_bytes(photo)
                done = self.run_bare(self.engine.base(suite, *packages), UNPACK + "kiln inspect /photos/photo.heic",
                                     "--volume", f"{folder}:/photos:ro")
                self.assertRegex(self.assert_done(done), r"HEIC image[^$]*\b64\b")


if __name__ == "__main__":
    require_night()
    main()
