#!/usr/bin/env python3
"""docs/screenshots.py OUT [PAGE.html ...]: pictures of pages, 390, 768 and 1200 pixels wide, light and dark; without a page,
of reports of made-up runs and their comparison.
docs/screenshots.py --readme REPORT.html: README's pictures, docs/report-light.png and docs/report-dark.png."""
import pathlib
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "tests/flow"))
import browser  # noqa: E402
from flow import kiln  # noqa: E402
from run_files import RunFile  # noqa: E402


def pages_of_made_up_runs(folder):
    killed = RunFile(epochs=6, seed=2)
    killed.end = None
    many = RunFile(classes=[f"class_{number}" for number in range(47)], epochs=4, valid_per_class=1)
    wild = RunFile(epochs=12, seed=3)
    first = next(event for event in wild.events if event["event"] == "epoch")
    first["valid"]["loss_sum"] = 111 * first["valid"]["images"]
    runs = {"usual": RunFile().judge(), "one-epoch": RunFile(classes=("cat", "dog", "horse"), epochs=1, steps=10).judge(),
            "killed": killed, "many-classes": many.judge(), "wild": wild}
    for name, run in runs.items():
        kiln("report", run.write(folder / name), "--output-path", folder / f"{name}.html")
    kiln("compare", *(folder / name for name in runs), "--output-path", folder / "compare.html")
    return {page.stem: page for page in sorted(folder.glob("*.html"))}


def pictures(window, out, pages):
    out.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        for width in (390, 768, 1200):
            for scheme in ("light", "dark"):
                window.show(width, scheme)
                window.open(page)
                window.picture(out / f"{name}-{width}-{scheme}.png")


def readme_pictures(window, page):
    for scheme in ("light", "dark"):
        window.show(1100, scheme)
        window.open(page)
        # As far as the curves go.
        end = window.evaluate("document.getElementById('curves').getBoundingClientRect().bottom + scrollY + 30")
        window.picture(DOCS / f"report-{scheme}.png", height=end)


if len(sys.argv) < 2 or not browser.PROGRAM:
    sys.exit(__doc__ if browser.PROGRAM else "There is no Chromium: environment/install.sh installs it.")
with browser.Browser() as window, tempfile.TemporaryDirectory() as folder:
    given = [pathlib.Path(name) for name in sys.argv[2:]]
    if sys.argv[1] == "--readme":
        readme_pictures(window, given[0])
    else:
        pictures(window, pathlib.Path(sys.argv[1]), {f"{page.absolute().parent.name}-{page.stem}": page for page in given}
                 or pages_of_made_up_runs(pathlib.Path(folder)))
