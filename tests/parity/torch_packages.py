"""Makes the pinned torch and torchvision importable; ends the test as skipped where they are not installed."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TORCH_ROOT = os.environ.get("KILN_TORCH_ROOT") or os.path.join(ROOT, ".deps", "libtorch")
PACKAGES = os.environ.get("KILN_PARITY_PACKAGES") or os.path.join(ROOT, ".deps", "parity")
if not os.path.isdir(os.path.join(PACKAGES, "torchvision")):
    print(f"skipped: no torchvision in {PACKAGES}; run environment/install.sh")
    sys.exit(77)
sys.path[:0] = [TORCH_ROOT, PACKAGES]
