"""Compares the operations of TrivialAugmentWide with torchvision's: augment_parity.py TOOL (of augment_tool.cpp).

No sample may differ by more than 1, and few by that. Exit code 77: no torchvision beside LibTorch.
"""
import math
import subprocess
import sys

import torch_packages  # noqa: F401, before torch

import numpy as np
import torch
from torchvision.transforms.v2 import functional as F

HEIGHT, WIDTH = 45, 60

# In the order of ImageOperation: what torchvision does for a magnitude, and the magnitudes to try.
FACTORS = (-0.99, -0.66, 0.33, 0.99)
CASES = (
    ("identity", lambda image, m: image, (0,)),
    ("shear x", lambda image, m: shear(image, m, 0), FACTORS),
    ("shear y", lambda image, m: shear(image, 0, m), FACTORS),
    ("translate x", lambda image, m: F.affine(image, 0.0, [int(m), 0], 1.0, [0.0, 0.0]), (-9.6, 17.06)),
    ("translate y", lambda image, m: F.affine(image, 0.0, [0, int(m)], 1.0, [0.0, 0.0]), (-9.6, 17.06)),
    ("rotate", lambda image, m: F.rotate(image, m), (31.5, -135.0)),
    ("brightness", lambda image, m: F.adjust_brightness(image, 1 + m), FACTORS),
    ("color", lambda image, m: F.adjust_saturation(image, 1 + m), FACTORS),
    ("contrast", lambda image, m: F.adjust_contrast(image, 1 + m), FACTORS),
    ("sharpness", lambda image, m: F.adjust_sharpness(image, 1 + m), FACTORS),
    ("posterize", lambda image, m: F.posterize(image, m), (2, 3, 8)),
    ("solarize", lambda image, m: F.solarize(image, m), (0.0, 100.0, 255.0)),
    ("autocontrast", lambda image, m: F.autocontrast(image), (0,)),
    ("equalize", lambda image, m: F.equalize(image), (0,)),
)


def shear(image, x, y):
    angles = [math.degrees(math.atan(x)), math.degrees(math.atan(y))]
    return F.affine(image, 0.0, [0, 0], 1.0, angles, center=[0, 0])


def picture():
    """Smooth rows with a little noise, neither black nor white; [H, W, 3]."""
    random = np.random.default_rng(1)
    steps = random.normal(0, 6, (HEIGHT, WIDTH, 3))
    return np.clip(np.cumsum(steps, 1) + 120 + random.normal(0, 5, steps.shape), 3, 240).astype(np.uint8)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    image = picture()
    pairs = [(number, m) for number, (_, _, magnitudes) in enumerate(CASES) for m in magnitudes]
    words = [str(word) for pair in pairs for word in pair]
    output = subprocess.run([sys.argv[1], str(HEIGHT), str(WIDTH), *words], input=image.tobytes(),
                            capture_output=True, check=True).stdout
    ours = np.frombuffer(output, np.uint8).reshape(len(pairs), HEIGHT, WIDTH, 3).astype(int)
    failures = 0
    for (number, magnitude), got in zip(pairs, ours):
        name, operation, _ = CASES[number]
        expected = operation(torch.from_numpy(image).permute(2, 0, 1), magnitude).permute(1, 2, 0).numpy()
        differences = np.abs(got - expected.astype(int))
        if differences.max() > 1 or (differences > 0).mean() > 0.05:
            failures += 1
            print(f"{name} {magnitude}: differs by {differences.max()} in {(differences > 0).mean():.2%} of the samples")
    print(f"{len(pairs) - failures} of {len(pairs)} operations as torchvision's")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
