"""Compares the operations of image transformations with torchvision's on Pillow's images:
operations_parity.py TOOL (of operations_tool.cpp).

Prints each chain's mean difference, which may be 2 at most, and refuses what torchvision refuses. What Kiln draws is
computed here by its definition, and given to torchvision's functions. Exit code 77: no torchvision beside LibTorch.
"""
import json
import math
import subprocess
import sys
import warnings

import torch_packages  # noqa: F401, before torch

import numpy as np
import torch
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional as F

HEIGHT, WIDTH = 61, 83
MOST = 2.0  # of 255, in the mean
SEVERAL_DRAWS = ("RandomCrop", "RandomResizedCrop", "RandomPerspective", "RandomErasing")


class Draws:
    """The sequence of the operation at `place` of a chain, for the key of zeros (src/base/random.h)."""
    ALL = (1 << 64) - 1
    STEP = 0x9E3779B97F4A7C15

    def __init__(self, place):
        self.state, self.count = 0, 0
        for part in (0, 0, 0, 0, 1000 + place):
            self.state = self.mix(self.state ^ part)

    def mix(self, x):
        x = (x + self.STEP) & self.ALL
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & self.ALL
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & self.ALL
        return x ^ (x >> 31)

    def next(self):
        self.count += 1
        return self.mix((self.state + self.STEP * (self.count - 1)) & self.ALL)

    def below(self, n):
        return self.next() * n >> 64

    def uniform(self, low=0.0, high=1.0):
        return low + (high - low) * ((self.next() >> 11) / 2.0 ** 53)

    def rectangle(self, size, scale, ratio, fits):
        """(top, left, sides): sides are sqrt(area * ratio) and sqrt(area / ratio), as `fits` takes them."""
        for _ in range(10):
            area = size[0] * size[1] * self.uniform(*scale)
            shape = math.exp(self.uniform(math.log(ratio[0]), math.log(ratio[1])))
            height, width = fits(round(math.sqrt(area * shape)), round(math.sqrt(area / shape)))
            if height:
                return self.below(size[0] - height + 1), self.below(size[1] - width + 1), height, width
        raise ValueError("choose a case that is drawn at once")


def random_crop(image, draws, size):
    size = [size, size] if isinstance(size, int) else size
    top, left = draws.below(image.height - size[0] + 1), draws.below(image.width - size[1] + 1)
    return F.crop(image, top, left, *size)


def random_resized_crop(image, draws, size, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), interpolation=2):
    def fits(width, height):
        return (height, width) if 0 < width <= image.width and 0 < height <= image.height else (0, 0)
    part = draws.rectangle((image.height, image.width), scale, ratio, fits)
    mode = {2: F.InterpolationMode.BILINEAR, 3: F.InterpolationMode.BICUBIC}[interpolation]
    return F.resized_crop(image, *part, [size, size], mode)


def random_perspective(image, draws, distortion_scale, p, interpolation=2, fill=0):
    assert draws.uniform() < p
    start = [[0, 0], [image.width - 1, 0], [image.width - 1, image.height - 1], [0, image.height - 1]]
    end = []
    for x, y in start:
        inward = [draws.below(int(distortion_scale * (side // 2)) + 1) for side in (image.width, image.height)]
        end.append([x + inward[0] if x == 0 else x - inward[0], y + inward[1] if y == 0 else y - inward[1]])
    mode = {0: F.InterpolationMode.NEAREST, 2: F.InterpolationMode.BILINEAR, 3: F.InterpolationMode.BICUBIC}
    return F.perspective(image, start, end, mode[interpolation], fill)


def random_erasing(image, draws, p, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0):
    assert draws.uniform() < p

    def fits(height, width):
        return (height, width) if height < image.shape[1] and width < image.shape[2] else (0, 0)
    part = draws.rectangle(image.shape[1:], scale, ratio, fits)
    value = value if isinstance(value, list) else [value] * 3
    return F.erase(image, *part, torch.tensor(value, dtype=torch.float32)[:, None, None])


def operation_of(name, arguments):
    if isinstance(arguments, dict):
        return getattr(transforms, name)(**arguments)
    return getattr(transforms, name)(*(arguments if isinstance(arguments, list) else [arguments]))


def expected(image, chain):
    for place, (name, arguments) in enumerate(chain):
        if name in SEVERAL_DRAWS and "pad_if_needed" not in arguments:
            draw = {"RandomCrop": random_crop, "RandomResizedCrop": random_resized_crop,
                    "RandomPerspective": random_perspective, "RandomErasing": random_erasing}[name]
            image = draw(image, Draws(place), **arguments)
        else:
            image = operation_of(name, arguments)(image)
    return np.asarray(image.convert("RGB"))


TENSOR = [["ToTensor", {}], ["ToPILImage", {}]]
CHAINS = [
    [["Resize", 40]], [["Resize", 100]], [["Resize", {"size": [50, 31]}]], [["Resize", [[29, 99], 2]]],
    [["Resize", {"size": 40, "max_size": 45}]], [["Resize", {"size": 5}]],
    *([["Resize", {"size": size, "interpolation": mode}]] for mode in (0, 1, 3, 4, 5) for size in (25, 90, [70, 20])),
    [["CenterCrop", 32]], [["CenterCrop", 33]], [["CenterCrop", {"size": [70, 40]}]], [["CenterCrop", {"size": [20, 96]}]],
    [["CenterCrop", 101]], [["Resize", 40], ["CenterCrop", 32]],
    [["Pad", 3]], [["Pad", -3]], [["Pad", {"padding": [2, 5], "fill": [9, 99, 199]}]],
    [["Pad", {"padding": [1, -2, 3, 4], "fill": 77}]],
    *([["Pad", {"padding": [7, 90, -5, 100], "padding_mode": mode}]] for mode in ("edge", "reflect", "symmetric")),
    *([["ColorJitter", {name: [factor, factor]}]] for name in ("brightness", "contrast", "saturation")
      for factor in (0, 0.3, 0.95, 1.4, 4)),
    *([["ColorJitter", {"hue": [turns, turns]}]] for turns in (-0.5, -0.2, 0.01, 0.3, 0.5)),
    [["Grayscale", {}]], [["Grayscale", 3]], [["RandomGrayscale", 1]], [["RandomGrayscale", 0]],
    [["RandomHorizontalFlip", 1]], [["RandomVerticalFlip", {"p": 1}]], [["RandomHorizontalFlip", 0]],
    *([["RandomRotation", {"degrees": [angle, angle], **more}]] for angle in (0, 90, 180, 270, -33.5, 12, 400)
      for more in ({}, {"expand": True}, {"interpolation": 2, "fill": [200, 100, 50]},
                   {"interpolation": 3, "center": [10, 50]})),
    *([["RandomAffine", {"degrees": [20, 20], **more}]]
      for more in ({}, {"scale": [0.7, 0.7]}, {"shear": [15, 15]}, {"shear": [10, 10, -20, -20], "scale": [1.3, 1.3]},
                   {"center": [5, 9], "fill": 120}, {"interpolation": 2, "shear": [30, 30]},
                   {"interpolation": 3, "scale": [2.5, 2.5]})),
    *([["RandomPerspective", {"distortion_scale": much, "p": 1, **more}]] for much in (0, 0.3, 0.8)
      for more in ({}, {"interpolation": 0}, {"interpolation": 3, "fill": [1, 200, 3]})),
    [["RandomCrop", {"size": 30}]], [["RandomCrop", {"size": [61, 20]}]],
    [["RandomCrop", {"size": [61, 83], "pad_if_needed": True, "padding": 0}]],
    [["RandomCrop", {"size": [65, 87], "padding": 2, "padding_mode": "reflect", "pad_if_needed": False}]],
    [["RandomResizedCrop", {"size": 32}]], [["RandomResizedCrop", {"size": 50, "scale": [0.1, 0.2], "ratio": [1, 2]}]],
    [["RandomResizedCrop", {"size": 32, "interpolation": 3}]],
    TENSOR, [TENSOR[0], ["Normalize", {"mean": [0.5, 0.4, 0.3], "std": [1.5, 2, 0.7]}], TENSOR[1]],
    [TENSOR[0], ["Normalize", [[0.5], [0.5]]], TENSOR[1]],
    [TENSOR[0], ["RandomErasing", {"p": 1}], TENSOR[1]],
    [TENSOR[0], ["RandomErasing", {"p": 1, "scale": [0.2, 0.2], "ratio": [2, 2], "value": [0.1, 0.5, 1]}], TENSOR[1]],
    [["Grayscale", {}], ["ColorJitter", {"contrast": [2, 2]}], ["Pad", {"padding": 2, "fill": 9}]],
    [["Resize", 70], ["RandomRotation", {"degrees": [15, 15]}], ["ColorJitter", {"saturation": [0.5, 0.5]}],
     ["RandomResizedCrop", {"size": 48}], ["RandomHorizontalFlip", 1]],
    [],
]

# What torchvision does not take, or what has no image as its result.
REFUSED = [
    [["Resize", 0]], [["Resize", -3]], [["Resize", {}]], [["Resize", {"sise": 4}]], [["Resize", 100000000]],
    [["Resize", {"size": 40, "max_size": 40}]], [["Resize", 40.5]], [["CenterCrop", 0]], [["CenterCrop", -4]],
    [["Pad", -40]], [["Pad", 2.5]], [["Pad", {"padding": [1, 2, 3]}]], [["Pad", {"padding": 3, "padding_mode": "x"}]],
    [["Pad", {"padding": 1, "fill": [1, 2]}]], [["Grayscale", 2]],
    [["Grayscale", {}], ["Pad", {"padding": 2, "fill": [1, 2, 3]}]],
    [["ColorJitter", {"hue": 0.6}]], [["ColorJitter", {"brightness": -1}]], [["ColorJitter", {"contrast": [2, 1]}]],
    [["RandomCrop", 90]], [["RandomCrop", -1]], [["RandomCrop", 0]], [["RandomResizedCrop", {"size": 20, "scale": 0.5}]],
    [["RandomRotation", -10]], [["RandomRotation", {"degrees": 30, "resample": 2}]],
    [["RandomRotation", {"degrees": 9, "interpolation": 1}]],
    [["RandomAffine", {"degrees": 10, "translate": 0.1}]], [["RandomAffine", {"degrees": 10, "translate": [0.1, 2]}]],
    [["RandomAffine", {"degrees": 10, "scale": [0, 1]}]], [["RandomAffine", {"degrees": 10, "shear": [4, 5, 6]}]],
    [["FiveCrop", 20]], [["TenCrop", 20]], [["ToTensor", {}]], [["ToPILImage", {}]], [["ToTensor", 3], ["ToPILImage", {}]],
    [["Normalize", {"mean": [0, 0, 0], "std": [1, 1, 1]}]], [["RandomErasing", {"p": 1}]],
    [TENSOR[0], ["Normalize", {"mean": [0], "std": [0]}], TENSOR[1]], [["resize", 40]], [["Resize", 40], ["Recise", 3]],
]


def picture():
    """Smooth rows and columns of all colors with a little noise; [H, W, 3]."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    waves = [np.sin(x / 9 + y / 23), np.cos(x / 31 - y / 7), np.sin(y / 12) * np.cos(x / 11)]
    return np.clip(127 + 120 * np.stack(waves, 2) + random.normal(0, 6, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)


def answers(tool, image, chains):
    words = [json.dumps(chain) for chain in chains]
    output = subprocess.run([tool, str(HEIGHT), str(WIDTH), *words], input=image.tobytes(), capture_output=True,
                            check=True).stdout
    for _ in chains:
        line, output = output.split(b"\n", 1)
        if line.startswith(b"FAULT"):
            yield line.decode()
            continue
        height, width = map(int, line.split())
        yield np.frombuffer(output[:height * width * 3], np.uint8).reshape(height, width, 3)
        output = output[height * width * 3:]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")
    image = picture()
    failures = 0
    for chain, ours in zip(CHAINS, answers(sys.argv[1], image, CHAINS)):
        theirs = expected(Image.fromarray(image), chain)
        if isinstance(ours, str):
            result = ours
        elif ours.shape != theirs.shape:
            result = f"{ours.shape} instead of {theirs.shape}"
        else:
            difference = np.abs(ours.astype(int) - theirs)
            result = f"mean {difference.mean():.3f}, most {difference.max()}"
            if difference.mean() <= MOST:
                print(f"{result:24} {json.dumps(chain)}")
                continue
        failures += 1
        print(f"FAILED: {result}: {json.dumps(chain)}")
    for chain, ours in zip(REFUSED, answers(sys.argv[1], image, REFUSED)):
        if isinstance(ours, str):
            print(f"{ours[:150]} {json.dumps(chain)}")
            continue
        failures += 1
        print(f"FAILED: not refused: {json.dumps(chain)}")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
