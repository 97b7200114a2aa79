#!/usr/bin/env python3
"""Predict the classes of new photos with a model that Kiln trained: predict.py MODEL PHOTO...

MODEL is the --trained-model-path of `kiln train`; needs torch, torchvision and Pillow. Prints, for each photo, the most
probable classes. Photos are preprocessed as in validation, according to MODEL/preprocessing.json. Probabilities are
calibrated with the temperature in MODEL/calibration.json.
"""
import csv
import json
import pathlib
import re
import sys

import numpy
import torch
import torchvision
from PIL import ExifTags, Image, ImageOps
from torchvision.transforms import functional


def load_network(folder):
    """The trained network, in evaluation mode: logits of [N, 3, height, width]."""
    name = re.search(r"^ *model_name: *(\S+)", (folder / "model_spec.yaml").read_text(), re.M)[1]
    weights = torch.load(folder / "model", map_location="cpu", weights_only=True)
    if name not in torchvision.models.list_models():
        sys.exit(f"torchvision does not have {name}: use kiln score, or the file of kiln export --format onnx.")
    own = {key.removeprefix("model."): value for key, value in weights.items() if key.startswith("model.")}
    head = weights.get("out_linear_model.weight")  # [classes, 1000]
    if head is None:  # from fresh weights: torchvision's network with one output per class
        classes = list(own.values())[-1].shape[0]  # the bias of the last layer
        network = torchvision.models.get_model(name, weights=None, num_classes=classes)
        network.load_state_dict(own)
        return network.eval()
    network = torchvision.models.get_model(name, weights=None)  # fine-tuned: keeps its 1000 outputs, then a linear layer
    network.load_state_dict(own)
    last = torch.nn.Linear(head.shape[1], head.shape[0])
    last.load_state_dict({"weight": head, "bias": weights["out_linear_model.bias"]})
    return torch.nn.Sequential(network, last).eval()


def read_photo(path, exif):
    """The RGB pixels that kiln decodes: of an animation the first frame, of 16-bit gray the high byte."""
    image = Image.open(path)
    white = 255 if getattr(image, "tag_v2", {}).get(262) == 0 else 0  # of a TIFF whose 0 is white, which Pillow takes for black
    if exif == "apply":
        image.info.pop("xmp", None)  # which kiln does not read: Pillow would turn a TIFF by it
        image = image.copy()  # without what Pillow has read of EXIF and XMP already
        for metadata in ("xmp", "XML:com.adobe.xmp"):
            image.info.pop(metadata, None)
        image = ImageOps.exif_transpose(image)
    elif image.format == "TIFF":
        image.getexif()[ExifTags.Base.Orientation] = 1  # pixels stay as stored, but Pillow would turn these
    if image.mode.startswith("I"):
        image = Image.fromarray((numpy.asarray(image) >> 8 ^ white).astype(numpy.uint8))
    return image.convert("RGB")


def prepare(path, how):
    """[3, height, width], as validation prepared it."""
    image = read_photo(path, how.get("exif"))
    height, width = how["input_size"]
    for name, values in how.get("transforms", []):  # of kiln train --transform-path: torchvision's operations
        operation = getattr(torchvision.transforms, name)
        image = (operation(**values) if isinstance(values, dict) else operation(values))(image)
    fit = how.get("fit")  # "pad", "stretch"; not there: crop
    if fit == "stretch":
        image = functional.resize(image, [height, width])
    elif fit == "pad":  # the largest size inside of the input
        size = [min(height, max(1, image.height * width // image.width)), min(width, max(1, image.width * height // image.height))]
        picture = functional.resize(image, size)
        image = Image.new("RGB", (width, height), tuple(how["fill"]))
        image.paste(picture, (round((width - picture.width) / 2), round((height - picture.height) / 2)))
    elif not (how["keep_exact_size"] and (image.height, image.width) == (height, width)):
        size = how["resize_short_side"]
        if size is None:  # the least size that covers the input
            is_tall = image.height * width >= image.width * height
            size = [image.height * width // image.width, width] if is_tall else [height, image.width * height // image.height]
        image = functional.resize(image, size)  # bilinear; of a Pillow image always antialiased
    image = functional.center_crop(image, [height, width])
    return functional.normalize(functional.to_tensor(image), how["mean"], how["std"])


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    if not (folder / "preprocessing.json").is_file():
        sys.exit(f"'{folder}' is not a model: give the --trained-model-path of kiln train.")
    how = json.loads((folder / "preprocessing.json").read_text())
    calibration = folder / "calibration.json"
    fitted = json.loads(calibration.read_text()) if calibration.exists() else {"temperature": 1}
    if "classes" in fitted:
        sys.exit("The model predicts several labels for an image: use kiln score, or the file of kiln export.")
    temperature = fitted["temperature"]
    with open(folder / "index_to_label.csv", newline="", encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    network = load_network(folder)
    bad = 0
    for path in sys.argv[2:]:
        try:
            image = prepare(path, how)
        except OSError as fault:  # no such file, a folder, no image
            print(f"{path}: {fault}", file=sys.stderr)
            bad += 1
            continue
        with torch.inference_mode():
            logits = network(image.unsqueeze(0))[0]
        probabilities = (logits / temperature).softmax(dim=0)
        best = probabilities.topk(min(3, len(labels)))
        answers = (f"{labels[index]} {value:.1%}" for value, index in zip(best.values, best.indices))
        print(f"{path}: {', '.join(answers)}")
    if bad:
        sys.exit(1)


if __name__ == "__main__":
    main()
