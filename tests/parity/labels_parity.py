"""Compares the loss and the metrics of several labels an image with PyTorch's and scikit-learn's: labels_parity.py TOOL (the
program of labels_tool.cpp).

Exit code 77: no scikit-learn or no PyTorch.
"""
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".deps" / "parity"))
sys.path.insert(0, os.environ.get("KILN_TORCH_ROOT", ".deps/libtorch"))

try:
    import numpy as np
    import torch
    from sklearn.metrics import average_precision_score, f1_score
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

LIMIT = 1e-6


def kilns(tool, logits, truth, weights, smoothing):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print(*logits.shape, smoothing, file=file)
        print(*weights, file=file)
        for row, has in zip(logits, truth):
            print(*(f"{value:.9g}" for value in row), *has, file=file)
        file.flush()
        lines = subprocess.run([tool, file.name], capture_output=True, text=True, check=True).stdout.splitlines()
    return [float(word) for word in " ".join(lines).split()]


def expected(logits, truth, weights, smoothing):
    exact, guessed = torch.from_numpy(logits.astype(np.float64)), logits >= 0
    target = torch.from_numpy(truth.astype(np.float64)) * (1 - smoothing) + smoothing / 2
    loss = torch.nn.functional.binary_cross_entropy_with_logits(exact, target, pos_weight=torch.tensor(weights), reduction="mean")
    precisions = [average_precision_score(truth[:, c], logits[:, c]) if truth[:, c].any() else np.nan for c in range(truth.shape[1])]
    return [loss.item() * len(logits), (guessed == truth).all(1).sum(), np.nanmean(precisions),
            f1_score(truth, guessed, average="micro", zero_division=np.nan), f1_score(truth, guessed, average="macro", zero_division=np.nan),
            *precisions]


def main(tool):
    random = np.random.default_rng(7)
    for images, classes, smoothing, digits in ((200, 5, 0.0, 9), (999, 12, 0.1, 9), (300, 4, 0.0, 0), (40, 30, 0.2, 1)):
        truth = (random.random((images, classes)) < random.random(classes) / 3).astype(int)
        logits = np.round(random.normal(size=(images, classes)) + 2 * truth - 1, digits).astype(np.float32)  # few digits: ties
        if classes == 30:
            truth[:, 3] = 0  # a class that no image has, and is not predicted
            logits[:, 3] = -1
        weights = random.random(classes) * 4 + 0.2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = expected(logits, truth, weights, smoothing)
        ours = kilns(tool, logits, truth, weights, smoothing)
        if not np.allclose(ours, theirs, rtol=LIMIT, atol=LIMIT, equal_nan=True):
            sys.exit(f"{images} images, {classes} classes:\nkiln {ours}\nthey {theirs}")
    print("loss, exact match, average precision and F1 are those of PyTorch and scikit-learn")


if __name__ == "__main__":
    main(sys.argv[1])
