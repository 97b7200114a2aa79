#!/usr/bin/env python3
"""The archive on bare systems: unpacked anywhere, it trains with one and two ranks, scores and writes its report."""
from release_case import FIRST_MINUTE, USERS, ReleaseTest, made, main, require_night, start_engine

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


if __name__ == "__main__":
    require_night()
    main()
