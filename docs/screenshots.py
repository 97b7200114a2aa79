#!/usr/bin/env python3
"""docs/screenshots.py REPORT.HTML [NAME]: pictures of the top of a report, as docs/NAME-light.png and docs/NAME-dark.png."""
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests/flow"))
import browser  # noqa: E402

if not browser.PROGRAM:
    sys.exit("There is no Chromium: environment/install.sh installs it.")
page = pathlib.Path(sys.argv[1])
name = sys.argv[2] if len(sys.argv) > 2 else "report"
with browser.Browser() as window:
    for scheme in ("light", "dark"):
        window.show(1100, scheme)
        window.open(page)
        # As far as the curves go.
        end = window.evaluate("document.getElementById('curves').getBoundingClientRect().bottom + scrollY + 30")
        window.picture(DOCS / f"{name}-{scheme}.png", height=end)
