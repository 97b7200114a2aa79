"""Compares Kiln's doubtful labels with cleanlab's on the same probabilities: audit_parity.py TOOL (the program of audit_tool.cpp).

Exit code 77: no cleanlab.
"""
import functools
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

PYTHON_PACKAGES = Path(__file__).resolve().parents[2] / ".deps" / "parity"
if PYTHON_PACKAGES.is_dir():
    sys.path.insert(0, str(PYTHON_PACKAGES))

try:
    import numpy as np
    from cleanlab.count import compute_confident_joint
    from cleanlab.filter import find_label_issues
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

# Counts are whole numbers, so ties are common, and NumPy's own order of them depends on the processor.
np.argsort = functools.partial(np.argsort, kind="stable")


def drawn(random, images, classes, noise, sharpness, skew):
    """Labels of which a share is turned, and probabilities of a model that is often right about the true ones."""
    shares = np.arange(1, classes + 1) ** float(skew)
    truth = random.choice(classes, images, p=shares / shares.sum())
    truth[:classes] = np.arange(classes)  # every class has an image
    labels = np.where(random.random(images) < noise, random.integers(0, classes, images), truth)
    labels[:classes] = np.arange(classes)
    logits = random.normal(size=(images, classes))
    logits[np.arange(images), truth] += sharpness
    weights = np.exp(logits - logits.max(1, keepdims=True))
    return labels, (weights / weights.sum(1, keepdims=True)).astype(np.float32)


def kilns(tool, labels, probabilities):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print(*probabilities.shape, file=file)
        for label, row in zip(labels, probabilities):
            print(label, *(f"{value:.9g}" for value in row), file=file)
        file.flush()
        lines = subprocess.run([tool, file.name], capture_output=True, text=True, check=True).stdout.splitlines()
    return np.array([[int(word) for word in line.split()] for line in lines[:-1]]), [int(word) for word in lines[-1].split()]


def fault_of(tool, labels, probabilities):
    """What differs; empty: nothing."""
    exact = probabilities.astype(np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected_joint = compute_confident_joint(labels, exact, calibrate=True)
        expected = find_label_issues(labels, exact, filter_by="prune_by_noise_rate", n_jobs=1,
                                     return_indices_ranked_by="self_confidence")
    joint, found = kilns(tool, labels, probabilities)
    if (joint != expected_joint).any():
        return f"{(joint != expected_joint).sum()} of {joint.size} counts of given and true labels"
    if set(found) != set(expected.tolist()):
        return f"{len(set(found) ^ set(expected.tolist()))} of {len(expected)} images in one list only"
    own = exact[np.arange(len(labels)), labels]
    if (own[found] != own[expected]).any():
        return "the order"
    return ""


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    random = np.random.default_rng(11)
    cases = [(images, classes, noise, sharpness, skew)
             for images, classes in ((40, 2), (150, 3), (600, 10), (700, 100), (3000, 10), (1000, 30))
             for noise, sharpness, skew in ((0.05, 4, 0), (0.2, 2, 0), (0.4, 3, 1), (0, 3, 0), (0.1, 0.5, 2))]
    faults, num_images = 0, 0
    for case in cases:
        labels, probabilities = drawn(random, *case)
        if fault := fault_of(sys.argv[1], labels, probabilities):
            faults += 1
            print(f"{case}: {fault}")
        num_images += len(labels)
    print(f"{len(cases) - faults} of {len(cases)} sets, {num_images} images, as cleanlab's")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
