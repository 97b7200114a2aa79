"""Shared by the platform tests: the repository, the real binary, and the platforms' own readers."""
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/flow"))

from flow import KILN, assert_resumed, main, start_until  # noqa: E402, F401

CLIENTS = ROOT / ".deps/clients"

COMPONENTS = {"train": "component.yaml", "init-model": "components/init-model.yaml",
              "convert": "components/convert.yaml", "split": "components/split.yaml", "pack": "components/pack.yaml",
              "score": "components/score.yaml", "evaluate": "components/evaluate.yaml", "fine-tune": "components/fine-tune.yaml",
              "transform init": "components/transform-init.yaml", "transform apply": "components/transform-apply.yaml"}
KUBEFLOW = {name: f"components/kubeflow/{name.replace(' ', '-')}.yaml" for name in COMPONENTS}
COMMANDS = {"fine-tune": "train"}  # of the components that are not called as theirs


def describe(format_name, *more):
    """The output of `kiln describe`."""
    done = subprocess.run([KILN, "describe", "--format", format_name, *more], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def use_clients():
    """Makes the packages of environment/clients.txt importable; skips the test if they are not installed."""
    if not CLIENTS.is_dir():
        print(f"SKIPPED: {CLIENTS} is not there; environment/install.sh makes it from environment/clients.txt")
        sys.exit(77)
    sys.path.insert(0, str(CLIENTS))
    os.environ["PYTHONPATH"] = str(CLIENTS)
