"""Kiln's networks against torchvision's, with the same weights: logits in float32; class maps, against Grad-CAM by autograd; and
gradients, BatchNorm statistics and loss of one training step in float64 (DenseNet with recomputation). By day one network of
each kind; with KILN_NIGHTLY=1 all of them, of which the others differ in the numbers of their blocks.

    model_parity.py --tool build/release/kiln_model_tool [--models NAME …] [--device cuda] [--logits-limit X] [--step-limit X]

Python uses the LibTorch that is installed: KILN_TORCH_ROOT (default .deps/libtorch), and .deps/parity beside it
(KILN_PARITY_PACKAGES overrides). Exit 77, a skip, when that folder is missing.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest.mock

import torch_packages  # noqa: F401, before torch

import torch
import torchvision
from safetensors.torch import load_file, save_file

# Beside the first network of each family: bottlenecks, groups, wide, and dense with other widths.
MODELS = ["resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet161"]
STEP_MODELS = ["resnet50"]  # in place of the first of its family
SIZE = 64


def make_model(name):
    """Random weights, with BatchNorm parameters and statistics that differ from channel to channel."""
    model = getattr(torchvision.models, name)()
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.weight.uniform_(0.5, 1.0)
                module.bias.uniform_(-0.2, 0.2)
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.8, 1.5)
                module.num_batches_tracked.fill_(7)
    return model


def run_tool(words, model, data, last_words=()):
    """What the tool writes for a model's state and `data`; `words` begin its command line, `last_words` end it."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        tensors = {"model." + key: value.contiguous() for key, value in model.state_dict().items()}
        save_file({**tensors, **data}, source)
        done = subprocess.run([*words, source, target, *last_words], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(words)} failed: {done.stderr.strip()}")
        return load_file(target)


def difference(ours, theirs):
    """The largest difference as a share of the largest value; shapes and types must agree."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    largest = theirs.abs().max().item()
    gap = (ours - theirs).abs().max().item()
    if gap != gap or largest != largest:
        return float("inf")
    return gap / largest if largest > 0 else gap


def check(failures, what, share, limit):
    if share > limit:
        failures.append(f"{what}: {share:.3g}, at most {limit:g} allowed")


def check_logits(arguments, name, failures):
    torch.manual_seed(len(name))
    model = make_model(name).eval()
    images = torch.randn(2, 3, SIZE, SIZE)
    with torch.no_grad():
        theirs = model(images)
    ours = run_tool([arguments.tool, "logits", name], model, {"images": images}, [arguments.device])
    shares = [difference(ours[form], theirs) for form in ("logits", "fused")]
    for form, share in zip(("logits", "fused"), shares):
        check(failures, f"{name}, {form}", share, arguments.logits_limit)
    return max(shares)


def grad_cam(model, images, labels):
    """Selvaraju et al., arXiv:1610.02391, of the features that the network takes the mean of; the largest value is 1."""
    pool, seen = torch.nn.functional.adaptive_avg_pool2d, []

    def watched(features, size):
        seen.append(features)
        return pool(features, size)
    with unittest.mock.patch("torch.nn.functional.adaptive_avg_pool2d", watched):
        logits = model(images)
    features, = seen
    gradient, = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), features)
    maps = (gradient.mean((2, 3), keepdim=True) * features).sum(1).relu().detach()
    return maps / maps.amax((1, 2), keepdim=True)


def check_maps(arguments, name, failures):
    torch.manual_seed(len(name))
    model = make_model(name).eval()
    images = torch.randn(3, 3, 2 * SIZE, 2 * SIZE)
    labels = model(images).argmax(1)
    labels[2] = (labels[2] + 1) % 1000
    theirs = grad_cam(model, images, labels)
    ours = run_tool([arguments.tool, "maps", name], model, {"images": images, "labels": labels}, [arguments.device])["maps"]
    share = difference(ours, theirs)
    check(failures, f"{name}, maps", share, arguments.logits_limit)
    return share


def check_step(arguments, name, failures):
    torch.manual_seed(11)
    model = make_model(name).double().train()
    images = torch.randn(4, 3, SIZE, SIZE, dtype=torch.float64)
    labels = torch.tensor([3, 999, 0, 512])
    ours = run_tool([arguments.tool, "step", name], model, {"images": images, "labels": labels}, [arguments.device])
    logits = model(images)
    loss = torch.nn.functional.cross_entropy(logits, labels)
    loss.backward()
    theirs = {"logits": logits.detach(), "loss": loss.detach()}
    theirs.update({"gradient.model." + key: value.grad for key, value in model.named_parameters()})
    theirs.update({"state.model." + key: value for key, value in model.state_dict().items()})
    if theirs.keys() != ours.keys():
        failures.append(f"{name}, step: names differ: {sorted(theirs.keys() ^ ours.keys())[:5]}")
        return float("inf")
    worst = 0.0
    for key, value in theirs.items():
        share = difference(ours[key], value)
        worst = max(worst, share)
        check(failures, f"{name}, {key}", share, arguments.step_limit)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--models", nargs="+", help="these alone")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of the tool; Python computes on the CPU")
    parser.add_argument("--logits-limit", type=float, default=1e-4, help="TF32 needs a higher one")
    parser.add_argument("--step-limit", type=float, default=1e-8, help="of a step in float64")
    arguments = parser.parse_args()
    names = subprocess.run([arguments.tool, "names"], capture_output=True, text=True, check=True).stdout.splitlines()
    known = dict(name.split() for name in names)  # the family of each
    first = list({family: name for name, family in reversed(known.items())}.values())
    steps = STEP_MODELS + [name for name in first if known[name] not in {known[other] for other in STEP_MODELS}]
    if not known or not set(arguments.models or []) <= set(known):
        parser.error(f"the tool knows {', '.join(known)}")
    models = arguments.models or (known if os.environ.get("KILN_NIGHTLY") == "1" else MODELS + first)
    failures = []
    for kind, check_model, names in (("logits", check_logits, known), ("maps", check_maps, first),
                                     ("step", check_step, steps)):
        for name in (name for name in names if name in models):
            begin = time.time()
            share = check_model(arguments, name, failures)
            print(f"{kind:6} {name:18} largest difference {share:.2g} of the largest value, "
                  f"{time.time() - begin:.1f} s", flush=True)
    for failure in failures[:20]:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
