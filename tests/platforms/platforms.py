"""Shared by the platform tests: the repository, the real binary, and the platforms' own readers."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/flow"), str(ROOT / "environment")]

import generate  # noqa: E402
from flow import KILN, assert_resumed, main, start_until  # noqa: E402, F401

CLIENTS = ROOT / ".deps/clients"
SHARE = pathlib.Path(KILN).parent / "share"  # made from the program when it was built

COMPONENTS = {"train": "component.yaml", "init-model": "components/init-model.yaml",
              "convert": "components/convert.yaml", "split": "components/split.yaml", "pack": "components/pack.yaml",
              "score": "components/score.yaml", "evaluate": "components/evaluate.yaml", "fine-tune": "components/fine-tune.yaml",
              "transform init": "components/transform-init.yaml", "transform apply": "components/transform-apply.yaml"}
KUBEFLOW = {name: f"components/kubeflow/{name.replace(' ', '-')}.yaml" for name in COMPONENTS}
COMMANDS = {"fine-tune": "train"}  # of the components that are not called as theirs


def described():
    """The commands and options of the program, as environment/generate.py reads them."""
    return generate.describe([KILN])


def use_clients():
    """Makes the packages of environment/clients.txt importable; skips the test if they are not installed."""
    if not CLIENTS.is_dir():
        print(f"SKIPPED: {CLIENTS} is not there; environment/install.sh makes it from environment/clients.txt")
        sys.exit(77)
    sys.path.insert(0, str(CLIENTS))
    os.environ["PYTHONPATH"] = str(CLIENTS)
