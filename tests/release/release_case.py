"""Shared by the release tests: each form is made once from the build at hand, and installed on bare systems without a
network."""
import os
import pathlib
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests/container"), str(ROOT / "tests/flow")]

from engine import LIMITS, Engine
from flow import main  # noqa: F401

BUILD = pathlib.Path(os.environ.get("KILN", ROOT / "build/release/kiln")).parent
OUT = pathlib.Path(os.environ.get("KILN_RELEASE", BUILD / "release"))
USERS = ("0", "10001")  # root, and one that no passwd knows and whose home, /, is not its own
MOST_SECONDS = float(os.environ.get("KILN_MOST_SECONDS", 60))  # from the file in hand to the end of a first epoch

# From an installed program to a report, in the working directory.
FIRST_MINUTE = """
kiln demo-data --output-path data --images 200
kiln init-model resnet18 --untrained-model-path untrained
train() {
  kiln train --untrained-model-path untrained --train-data-path data/train --valid-data-path data/val --epochs 1 \
    --batch-size 16 --trained-model-path model --log-path "$@"
}
train logs
echo "seconds to the first epoch: $(($(date +%s) - begin))"
train logs-2 --ranks 2
kiln score --trained-model-path model --data-path data/val --output-path scores.csv
[ "$(wc -l <scores.csv)" -gt 40 ]
ls logs-2/report.html logs-2/epochs.csv
"""


# Of HEIC: its decoder implements patents, its encoder is under the GPL. A system has them or has not.
NOT_BROUGHT = ("libheif", "libde265", "libx265")


class ReleaseTest(unittest.TestCase):
    engine = None

    def assert_brings_no_heic(self, *listed):
        """Files and packages, as texts."""
        self.assertEqual([name for name in NOT_BROUGHT for text in listed if name in text], [])

    def run_bare(self, base, script, *options, user="0", place="/out"):
        """`script` of a shell on a bare system; OUT is /release, LibTorch /torch, and `place` all that may be written."""
        return self.engine.podman("run", "--rm", "--read-only", "--network", "none", "--user", user, *LIMITS,
                                  "--tmpfs", "/tmp", "--tmpfs", f"{place}:mode=1777,exec,size=3g", "--workdir", place,
                                  "--volume", f"{OUT}:/release:ro", *options, base, "sh", "-euc",
                                  f"begin=$(date +%s)\n{script}")

    def assert_done(self, done):
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def assert_soon(self, output, name):
        seconds = int(output.partition("seconds to the first epoch: ")[2].split()[0])
        print(f"{name}: {seconds} s from the file to the end of the first epoch")
        self.assertLessEqual(seconds, MOST_SECONDS)


def made(pattern, form):
    """The file of a form, made now if it is older than the program."""
    newest = max(path.stat().st_mtime for path in BUILD.glob("*kiln*") if path.is_file())
    files = [path for path in OUT.glob(pattern) if path.stat().st_mtime > newest]
    if not files:
        for old in OUT.glob(pattern):
            old.unlink()
        begin = time.monotonic()
        done = subprocess.run([ROOT / "environment/release.sh", OUT, "cpu", form], capture_output=True, text=True,
                              env={**os.environ, "KILN_BUILD": str(BUILD)})
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        print(f"{form}: made in {time.monotonic() - begin:.0f} s")
        files = list(OUT.glob(pattern))
    assert len(files) == 1, f"{pattern}: {files}"
    return files[0]


def require_night():
    if os.environ.get("KILN_NIGHTLY") != "1":
        print("only with KILN_NIGHTLY=1")
        sys.exit(77)


def start_engine():
    """For setUpModule. Without containers nothing of the file is run, and CTest says so."""
    ReleaseTest.engine = Engine(pathlib.Path(os.environ["KILN_CONTAINER_CACHE"]))
    if reason := ReleaseTest.engine.reason_against():
        ReleaseTest.engine.close()
        print(f"SKIPPED: no container here: {reason}", flush=True)
        sys.exit(77)
    unittest.addModuleCleanup(ReleaseTest.engine.close)
