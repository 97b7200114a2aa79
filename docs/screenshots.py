#!/usr/bin/env python3
"""docs/screenshots.py OUT [PAGE.html ...]: pictures of pages, 390, 768 and 1200 pixels wide, light and dark; without a page,
of reports of made-up runs and their comparison.
docs/screenshots.py --docs: the pictures in README and docs/, of drawn images: trains for some minutes, on a quiet machine."""
import pathlib
import random
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


def run(*words):
    done = kiln(*words)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


def part(window, page, section, out, scheme="light", width=1000, height=None):
    """A picture of a page from a section's heading on, or from its top to the section's end."""
    window.show(width, scheme)
    window.open(page)
    top, bottom = window.evaluate(f"(({{top, bottom}}) => [top + scrollY - 20, bottom + scrollY + 20])"
                                  f"(document.querySelector('section#{section}').getBoundingClientRect())")
    window.picture(DOCS / out, **({"height": bottom} if height is None else {"top": top, "height": height}))


def pictures_of_docs(window, folder):
    drawn, model = folder / "shapes", folder / "model"
    run("demo-data", "--output-path", drawn, "--images", 1200, "--classes", 10, "--size", 64)
    run("train", "--train-data-path", drawn / "train", "--valid-data-path", drawn / "val", "--model-name", "resnet18", "--image-size",
        64, "--epochs", 6, "--augment", "standard", "--trained-model-path", model, "--log-path", folder / "logs")
    for scheme in ("light", "dark"):
        part(window, folder / "logs/report.html", "curves", f"report-{scheme}.png", scheme, 1100)
    run("evaluate", drawn / "val", "--trained-model-path", model, "--output-path", folder / "evaluation")
    part(window, folder / "evaluation/evaluation.html", "confusion", "answers.png", height=1120)
    draw = random.Random(1)
    images = sorted((drawn / "train").rglob("*.*"))
    for path in draw.sample(images, len(images) // 25):
        others = [place for place in (drawn / "train").iterdir() if place.name != path.parent.name]
        path.rename(draw.choice(others) / ("turned-" + path.name))
    run("audit", "--data-path", drawn / "train", "--trained-model-path", model, "--output-path", folder / "audit")
    part(window, folder / "audit/audit.html", "doubtful", "audit.png", height=560)


if len(sys.argv) < 2 or not browser.PROGRAM:
    sys.exit(__doc__ if browser.PROGRAM else "There is no Chromium: environment/install.sh installs it.")
with browser.Browser() as window, tempfile.TemporaryDirectory() as folder:
    given = [pathlib.Path(name) for name in sys.argv[2:]]
    if sys.argv[1] == "--docs":
        pictures_of_docs(window, pathlib.Path(folder))
    else:
        pictures(window, pathlib.Path(sys.argv[1]), {f"{page.absolute().parent.name}-{page.stem}": page for page in given}
                 or pages_of_made_up_runs(pathlib.Path(folder)))
