"""What a Python user would run instead of `kiln score`: the same model and images with torch and torchvision, answers as CSV.

    score_torchvision.py MODEL IMAGES OUT [--workers N] [--threads N] [--batch-size N] [--channels-last]
    score_torchvision.py MODEL --forward STEPS ...       the bare forward pass, on random images

MODEL is a ModelDirectory of `kiln train`; IMAGES has a folder for each class. Prints a JSON line with "img_per_s": from opening
the loader until OUT is written, or of the median step. score_onnx.py does the same with another forward pass.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys
import time

import torch
import torchvision
from torchvision import transforms

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from predict import load_network  # noqa: E402

WARM_UP_STEPS = 3


def preprocessing_of(folder):
    return json.loads((folder / "preprocessing.json").read_text())


def transform_of(how):
    height, width = how["input_size"]
    steps = [transforms.CenterCrop((height, width)), transforms.ToTensor(), transforms.Normalize(how["mean"], how["std"])]
    if how["resize_short_side"] is not None:
        resize = transforms.Resize(how["resize_short_side"])
        kept = (width, height) if how["keep_exact_size"] else None
        steps.insert(0, lambda image: image if image.size == kept else resize(image))
    return transforms.Compose(steps)


def labels_of(folder):
    with open(folder / "index_to_label.csv", newline="", encoding="utf-8") as file:
        return [row["label"] for row in csv.DictReader(file)]


def write_answers(args, forward):
    """The rate at which images became rows."""
    labels = labels_of(args.model)
    images = torchvision.datasets.ImageFolder(args.images, transform_of(preprocessing_of(args.model)))
    loader = torch.utils.data.DataLoader(images, batch_size=args.batch_size, num_workers=args.workers)
    paths = iter(pathlib.Path(path).relative_to(args.images) for path, _ in images.samples)
    begin = time.perf_counter()
    with torch.inference_mode(), open(args.out, "w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", "label", "confidence"])
        for batch, _ in loader:
            confidences, ids = forward(batch).softmax(1).max(1)
            for confidence, label in zip(confidences.tolist(), ids.tolist()):
                rows.writerow([next(paths), labels[label], confidence])
    return len(images) / (time.perf_counter() - begin)


def forward_rate(args, forward):
    images = torch.randn(args.batch_size, 3, *preprocessing_of(args.model)["input_size"])
    times = []
    with torch.inference_mode():
        for _ in range(WARM_UP_STEPS + args.forward):
            begin = time.perf_counter()
            forward(images)
            times.append(time.perf_counter() - begin)
    return args.batch_size / statistics.median(times[WARM_UP_STEPS:])


def run(add_options, make_forward):
    """The program; `make_forward(args)` gives a function of [N, 3, H, W] to logits."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("images", type=pathlib.Path, nargs="?")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--forward", type=int, default=0, metavar="STEPS")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch-size", type=int, default=64)
    add_options(parser)
    args = parser.parse_intermixed_args()
    torch.set_num_threads(args.threads)
    forward = make_forward(args)
    rate = forward_rate(args, forward) if args.forward else write_answers(args, forward)
    print(json.dumps({"img_per_s": round(rate, 1)}))


def torch_forward(args):
    layout = torch.channels_last if args.channels_last else torch.contiguous_format
    network = load_network(args.model).to(memory_format=layout)
    return lambda images: network(images.contiguous(memory_format=layout))


if __name__ == "__main__":
    run(lambda parser: parser.add_argument("--channels-last", action="store_true"), torch_forward)
