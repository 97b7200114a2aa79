"""Ten training steps of kiln beside ten of PyTorch, in float64 and from the same weights on the same batches, with warm-up
and decay of the learning rate: rates and losses of every step, every tensor's gradients in the first and the last,
weights and BatchNorm statistics after them. ResNeXt-50 only with KILN_NIGHTLY=1. ResNet-18 also with weighted classes, for
which the sum of cross_entropy(weight=…) is divided by the images, not by their weights; losses are told unweighted.

Then the losses of three steps in each precision that the CPU has beside those under torch.autocast; fp16, which is slow on
CPUs, only with KILN_NIGHTLY=1.

    train_parity.py --tool build/release/kiln_train_tool [--models NAME …]

Takes the Python packages that model_parity.py takes. Exit 77, a skip, where they are missing.
"""
import argparse
import os
import sys
import time

from model_parity import check, difference, make_model, run_tool

import torch

MODELS = ["resnet18", "densenet121", "resnext50_32x4d"]
BY_DAY = MODELS[:2]
STEPS, BATCH, SIZE = 10, 6, 32
WARMUP_EPOCHS, PEAK = 3, 0.002
# The designer's recipe.
MOMENTUM, WEIGHT_DECAY, START, FLOOR = 0.9, 1e-4, 1e-4, 1e-7
LIMIT = 1e-8  # of a tensor's largest value

# Type of autocast, and how far a loss may be off, as a share of it.
PRECISIONS = {"fp32": (None, 1e-5), "bf16": (torch.bfloat16, 1e-2), "fp16": (torch.float16, 2e-3)}
PRECISIONS_BY_DAY = ["fp32", "bf16"]


def rate_of(epoch):
    """Linear warm-up from START to PEAK, then a polynomial of power 2 down to FLOOR."""
    if epoch < WARMUP_EPOCHS:
        return START + (PEAK - START) * epoch / WARMUP_EPOCHS
    left = 1 - (epoch - WARMUP_EPOCHS) / (STEPS - WARMUP_EPOCHS)
    return FLOOR + (PEAK - FLOOR) * left ** 2


def train(model, data, autocast=None):
    """PyTorch's side; the same names as the tool's. `autocast`: the type of mixed precision."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY, nesterov=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_of)
    scaler = torch.amp.GradScaler("cpu", enabled=autocast is torch.float16)
    rates, losses, results = [], [], {}
    for step, (images, labels) in enumerate(zip(data["images"], data["labels"])):
        optimizer.zero_grad()
        with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
            logits = model(images)
            loss = torch.nn.functional.cross_entropy(logits, labels)
        objective = loss
        if "class_weights" in data:
            objective = torch.nn.functional.cross_entropy(logits, labels, weight=data["class_weights"],
                                                          reduction="sum") / len(labels)
        scaler.scale(objective).backward()
        rates.append(schedule.get_last_lr()[0])
        losses.append(loss.item())
        if step in (0, STEPS - 1):
            which = "gradient.first.model." if step == 0 else "gradient.last.model."
            results.update({which + key: value.grad.clone() for key, value in model.named_parameters()})
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    results.update({"state.model." + key: value for key, value in model.state_dict().items()})
    return {**results, "rates": torch.tensor(rates, dtype=torch.float64),
            "losses": torch.tensor(losses, dtype=torch.float64)}


def make_start(name):
    """Residual branches of three convolutions start small: with full ones, PyTorch's own ResNeXt-50 turns 1e-14 at its
    first weights into 0.2 at the loss within six steps, and no two ways to sum could agree."""
    model = make_model(name).double().train()
    with torch.no_grad():
        for path, module in model.named_modules():
            if path.endswith(".bn3"):
                module.weight.mul_(0.2)
    return model


def check_training(tool, name, failures, weighted=False):
    """The largest difference, and the losses of the first and the last step."""
    torch.manual_seed(17)
    model = make_start(name)
    data = {"images": torch.randn(STEPS, BATCH, 3, SIZE, SIZE, dtype=torch.float64),
            "labels": torch.randint(1000, (STEPS, BATCH)),
            "schedule": torch.tensor([WARMUP_EPOCHS, PEAK], dtype=torch.float64)}
    if weighted:
        data["class_weights"] = torch.rand(1000, dtype=torch.float64) * 3 + .1
    ours = run_tool([tool, name, "fp64"], model, data)
    theirs = train(model, data)
    if theirs.keys() != ours.keys():
        failures.append(f"{name}: names differ: {sorted(theirs.keys() ^ ours.keys())[:5]}")
        return float("inf"), theirs["losses"]
    shares = {key: difference(ours[key], value) for key, value in theirs.items()}
    for key, share in shares.items():
        check(failures, f"{name}, {key}", share, LIMIT)
    return max(shares.values()), theirs["losses"]


def check_losses(tool, name, precision, failures):
    """The largest difference of a step's loss, and the losses of the first and the last step."""
    autocast, limit = PRECISIONS[precision]
    steps = WARMUP_EPOCHS  # the rate of later ones depends on the number of steps
    torch.manual_seed(18)
    model = make_model(name).train()
    data = {"images": torch.randn(steps, BATCH, 3, SIZE, SIZE), "labels": torch.randint(1000, (steps, BATCH)),
            "schedule": torch.tensor([WARMUP_EPOCHS, PEAK], dtype=torch.float64)}
    ours = run_tool([tool, name, precision], model, data)["losses"]
    theirs = train(model, data, autocast)["losses"]
    share = ((ours - theirs) / theirs).abs().max().item()
    check(failures, f"{name} in {precision}, losses", share if share == share else float("inf"), limit)
    return share, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--models", nargs="+", choices=MODELS)
    arguments = parser.parse_args()
    failures = []
    for name in arguments.models or (MODELS if os.environ.get("KILN_NIGHTLY") == "1" else BY_DAY):
        begin = time.time()
        share, losses = check_training(arguments.tool, name, failures)
        print(f"{name:18} largest difference {share:.2g} of the largest value, losses {losses[0]:.4f} to "
              f"{losses[-1]:.4f}, {time.time() - begin:.1f} s", flush=True)
    share, _ = check_training(arguments.tool, "resnet18", failures, weighted=True)
    print(f"resnet18 with weighted classes, largest difference {share:.2g} of the largest value", flush=True)
    for precision in PRECISIONS if os.environ.get("KILN_NIGHTLY") == "1" else PRECISIONS_BY_DAY:
        begin = time.time()
        share, losses = check_losses(arguments.tool, "resnet18", precision, failures)
        print(f"resnet18 in {precision:6} losses differ by {share:.2g} at most, {losses[0]:.4f} to {losses[-1]:.4f}, "
              f"{time.time() - begin:.1f} s", flush=True)
    for failure in failures[:20]:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
