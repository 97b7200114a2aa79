"""Kiln's networks against torchvision's, or timm's where it has none: fresh weights, tensor by tensor; logits in float32, and in
float64 with the weights of either side; class maps, against Grad-CAM by autograd; gradients, BatchNorm statistics and loss of one
training step in float64 (DenseNet with recomputation), without drops and with Kiln's own. By day one network of each kind; with
KILN_NIGHTLY=1 all of them, of which the others differ in the numbers of their blocks and channels. With --timm, and
KILN_NIGHTLY=1 or --models, those that timm alone has, and files of timm's, through `kiln init-model`: its weights of the same
networks, which answer as timm's do, and those of relatives, which are refused by name.

    model_parity.py --tool build/release/kiln_model_tool [--timm --kiln build/release/kiln] [--models NAME …]
                    [--device cuda] [--logits-limit X] [--step-limit X]

Python uses the LibTorch that is installed: KILN_TORCH_ROOT (default .deps/libtorch), and .deps/parity beside it
(KILN_PARITY_PACKAGES overrides, KILN_TIMM for timm). Exit 77, a skip, when what is asked for is not there.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time
import unittest.mock

import torch_packages  # before torch

TIMM_FOLDER = os.environ.get("KILN_TIMM", torch_packages.PACKAGES)
if "--timm" in sys.argv and not os.path.isdir(os.path.join(TIMM_FOLDER, "timm")):
    print(f"skipped: no timm in {TIMM_FOLDER}; run environment/install.sh")
    sys.exit(77)
sys.path.append(TIMM_FOLDER)

import torch  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

if "--timm" in sys.argv:
    import timm

# Beside the first network of each family: bottlenecks, fused blocks, layer scale.
MODELS = ["resnet50", "efficientnet_v2_s", "vit_s_14"]
STEP_MODELS = ["resnet50"]  # in place of the first of its family
DESIGNERS = ("ResNet", "DenseNet")  # the families whose fresh weights tests/model checks
TIMM = {"vit_s_16": "vit_small_patch16_224", "vit_s_14": "vit_small_patch14_dinov2", "vit_b_14": "vit_base_patch14_dinov2"}
# torchvision's networks that have other names in timm, or BatchNorm another constant.
TIMM_NAMES = {"mobilenet_v3_large": "mobilenetv3_large_100", "efficientnet_b0": "efficientnet_b0", "convnext_tiny": "convnext_tiny",
              "efficientnet_v2_s": "efficientnetv2_s", "vit_b_16": "vit_base_patch16_224", "resnet50": "resnet50",
              "densenet121": "densenet121", "mobilenet_v3_small": "mobilenetv3_small_100", "efficientnet_b2": "efficientnet_b2"}
RELATIVES = [("convnext_tiny", "convnextv2_tiny", "those of a ConvNeXt V2"),
             ("vit_s_14", "vit_small_patch14_reg4_dinov2", "those of a ViT with registers"),
             ("vit_s_16", "vit_small_patch16_dinov3", "those of a DINOv3"),
             ("vit_s_16", "deit_small_distilled_patch16_224", "those of a distilled ViT"),
             ("vit_b_16", "vit_base_patch16_clip_224", "unexpected: model.norm_pre."),
             ("vit_s_14", "vit_small_patch16_224", "not those of vit_s_14"),
             ("efficientnet_v2_s", "efficientnetv2_rw_t", "not those of efficientnet_v2_s"),
             ("mobilenet_v3_large", "mobilenetv3_small_100", "not those of mobilenet_v3_large"),
             ("convnext_tiny", "convnext_small", "not those of convnext_tiny")]
SIZE = 64
SIZES = {"vit_s_14": 70, "vit_b_14": 70}


def reference(name):
    if name in TIMM:
        return timm.create_model(TIMM[name], num_classes=1000, dynamic_img_size=True)
    model = getattr(torchvision.models, name)()
    if hasattr(model, "encoder"):
        take_any_size(model)
    return model


def take_any_size(model):
    """torchvision's ViT takes one size: its positions are resampled here as timm's are."""
    encoder, grid = model.encoder, model.image_size // model.patch_size
    model.image_size = SIZE

    def forward(x):
        side = int((x.shape[1] - 1) ** 0.5)
        first, others = encoder.pos_embedding.split([1, grid * grid], 1)
        others = others.reshape(1, grid, grid, -1).permute(0, 3, 1, 2)
        others = torch.nn.functional.interpolate(others.float(), (side, side), mode="bicubic", antialias=True).to(x.dtype)
        return encoder.ln(encoder.layers(encoder.dropout(x + torch.cat([first, others.flatten(2).permute(0, 2, 1)], 1))))
    encoder.forward = forward


def image_size(name):
    return SIZES.get(name, SIZE)


def make_model(name, model=None):
    """Random weights, with parameters and statistics of norms that differ from channel to channel."""
    model = model or reference(name)
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.dim() == 2 and value.abs().max() == 0:
                value.normal_(0, 0.05)
            elif value.min() == value.max():
                value.uniform_(-0.2, 0.2) if key.endswith("bias") else value.uniform_(0.5, 1.0)
        norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        for norm in norms:
            norm.weight.uniform_(0.5, 1.0)
            norm.bias.uniform_(-0.2, 0.2)
            norm.running_mean.uniform_(-0.2, 0.2)
            norm.running_var.uniform_(0.8, 1.5)
        # Where maps are multiplied by what their means say, the answers to all images are then the same but for rounding: there
        # the statistics are those of images.
        if name.startswith(("mobilenet", "efficientnet")):
            momentum = norms[0].momentum
            for norm in norms:
                norm.momentum = 1.0
            model.train()(torch.randn(16, 3, image_size(name), image_size(name)))
            for norm in norms:
                norm.momentum = momentum
        for norm in norms:
            norm.num_batches_tracked.fill_(7)
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


def difference(ours, theirs, least=0):
    """The largest difference as a share of the largest value, or of `least`; shapes and types must agree."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    largest = max(theirs.abs().max().item(), least)
    gap = (ours - theirs).abs().max().item()
    if gap != gap or largest != largest:
        return float("inf")
    return gap / largest if largest > 0 else gap


def check(failures, what, share, limit):
    if share > limit:
        failures.append(f"{what}: {share:.3g}, at most {limit:g} allowed")


def check_fresh(arguments, name, failures):
    """Of each tensor: the shape, the value if all are the same, or else mean and quantiles of the sizes; then the logits."""
    before = len(failures)
    model = reference(name).double().eval()
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "out.safetensors")
        subprocess.run([arguments.tool, "fresh", name, target], check=True)
        ours = {key.removeprefix("model."): value for key, value in load_file(target).items()}
    theirs = model.state_dict()
    if ours.keys() != theirs.keys():
        failures.append(f"{name}, fresh: names differ: {sorted(theirs.keys() ^ ours.keys())[:5]}")
        return float("inf")
    for key, value in theirs.items():
        mine, value = (tensor.double() for tensor in (ours[key], value))
        if mine.shape != value.shape:
            failures.append(f"{name}, {key}: shape {tuple(mine.shape)} instead of {tuple(value.shape)}")
        elif value.min() == value.max():
            if not torch.equal(mine.float(), value.float()):
                failures.append(f"{name}, {key} is not {value.flatten()[0].item():g}")
        else:
            mine, value = (tensor.flatten()[:1 << 16] for tensor in (mine, value))  # which are enough, and quickly sorted
            error = 10 / value.numel() ** 0.5  # five standard errors of either quantile; both of a normal one and a uniform one
            half = value.abs().quantile(0.5)
            check(failures, f"{name}, {key}, mean", ((mine.mean() - value.mean()).abs() / half).item(), error)
            for share in (0.5, 0.99):  # not the extremes: torch's trunc_normal_ draws its bound once in 2^24 times
                ratio = mine.abs().quantile(share) / value.abs().quantile(share)
                check(failures, f"{name}, {key}, quantile {share}", abs(ratio - 1).item(), error)
    if len(failures) > before:
        return float("inf")
    model.load_state_dict({key: value.to(theirs[key].dtype) for key, value in ours.items()})
    return check_exact(arguments, name, model, failures)


def check_exact(arguments, name, model, failures):
    """In float64."""
    images = torch.randn(2, 3, image_size(name), image_size(name), dtype=torch.float64)
    model = model.double().eval()
    with torch.no_grad():
        theirs = model(images)
    share = difference(run_tool([arguments.tool, "exact", name], model, {"images": images}, [arguments.device])["logits"], theirs)
    check(failures, f"{name}, float64", share, arguments.exact_limit)
    return share


def check_logits(arguments, name, failures):
    torch.manual_seed(len(name))
    model = make_model(name).eval()
    images = torch.randn(2, 3, image_size(name), image_size(name))
    with torch.no_grad():
        theirs = model(images)
    ours = run_tool([arguments.tool, "logits", name], model, {"images": images}, [arguments.device])
    shares = [difference(ours[form], theirs) for form in ("logits", "fused")]
    for form, share in zip(("logits", "fused"), shares):
        check(failures, f"{name}, {form}", share, arguments.logits_limit)
    check_exact(arguments, name, model, failures)
    return max(shares)


def grad_cam(model, images, labels):
    """Selvaraju et al., arXiv:1610.02391, of the features that the network takes the mean of, or of the patches that the last
    block's attention sees; the largest value is 1."""
    norm = model.blocks[-1].norm1 if hasattr(model, "blocks") else model.encoder.layers[-1].ln_1 if hasattr(model, "encoder") else None
    if norm is not None:
        kept = []
        handle = norm.register_forward_hook(lambda module, given, result: kept.append(result))
        logits = model(images)
        handle.remove()
        gradient, = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), kept[0])
        side = int((kept[0].shape[1] - 1) ** 0.5)
        maps = (gradient[:, 1:].mean(1, keepdim=True) * kept[0][:, 1:]).sum(2).relu().detach().reshape(-1, side, side)
        return maps / maps.amax((1, 2), keepdim=True)
    pool, seen = torch.nn.functional.adaptive_avg_pool2d, []

    def watched(features, size):
        seen.append(features)
        return pool(features, size)
    with unittest.mock.patch("torch.nn.functional.adaptive_avg_pool2d", watched):
        logits = model(images)
    *_, features = seen  # before it squeeze and excitation has its own
    gradient, = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), features)
    maps = (gradient.mean((2, 3), keepdim=True) * features).sum(1).relu().detach()
    return maps / maps.amax((1, 2), keepdim=True).clamp_min(1e-30)


def check_maps(arguments, name, failures):
    torch.manual_seed(len(name))
    model = make_model(name).eval()
    side = SIZES.get(name, SIZE if name.startswith("vit") else 2 * SIZE)
    images = torch.randn(3, 3, side, side)
    labels = model(images).argmax(1)
    labels[2] = (labels[2] + 1) % 1000
    theirs = grad_cam(model, images, labels)
    ours = run_tool([arguments.tool, "maps", name], model, {"images": images, "labels": labels}, [arguments.device])["maps"]
    share = difference(ours, theirs)
    check(failures, f"{name}, maps", share, arguments.logits_limit)
    return share


def drops_of(model):
    return {key: module for key, module in model.named_modules()
            if isinstance(module, (torch.nn.Dropout, torchvision.ops.StochasticDepth))}


def use_masks(model, masks):
    """The drops of a model keep what these say, by the module's name; without a mask they must not be called."""
    for key, module in drops_of(model).items():
        if module.p > 0:
            module.forward = lambda x, mask=masks.get(key), p=module.p: x * mask.view(len(x), *[1] * (x.dim() - 2), -1) / (1 - p)


def check_step(arguments, name, failures):
    worst = check_one_step(arguments, name, "step", failures)
    if any(module.p > 0 for module in drops_of(reference(name)).values()):
        worst = max(worst, check_one_step(arguments, name, "masked", failures))
    return worst


def check_one_step(arguments, name, mode, failures):
    torch.manual_seed(11)
    model = make_model(name).double().train()
    images = torch.randn(4, 3, image_size(name), image_size(name), dtype=torch.float64)
    labels = torch.tensor([3, 999, 0, 512])
    ours = run_tool([arguments.tool, mode, name], model, {"images": images, "labels": labels}, [arguments.device])
    masks = {key.removeprefix("mask."): ours.pop(key).double() for key in list(ours) if key.startswith("mask.")}
    if mode == "masked":
        if not masks or all(mask.min() == 1 for mask in masks.values()):
            failures.append(f"{name}: nothing was dropped")
        use_masks(model, masks)
    else:
        for module in drops_of(model).values():
            module.p = 0.0
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
    # Of a shift that a later BatchNorm takes away the gradient is 0 but for rounding.
    least = 1e-6 * max(value.abs().max().item() for key, value in theirs.items() if key.startswith("gradient."))
    for key, value in theirs.items():
        share = difference(ours[key], value, least if key.startswith("gradient.") else 0)
        worst = max(worst, share)
        check(failures, f"{name}, {key}", share, arguments.step_limit)
    return worst


def init_model(kiln, name, weights, folder):
    return subprocess.run([kiln, "init-model", name, "--weights", weights, "--untrained-model-path", folder],
                          capture_output=True, text=True, check=False)


def check_timm(arguments, name, failures):
    """What init-model makes of a file of timm's, whose tensors are in the order of their names, answers as timm does."""
    torch.manual_seed(len(name))
    theirs = make_model(name, timm.create_model(TIMM_NAMES[name], dynamic_img_size=True) if name.startswith("vit")
                        else timm.create_model(TIMM_NAMES[name])).eval()
    images = torch.randn(2, 3, image_size(name), image_size(name), dtype=torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        weights, untrained = os.path.join(folder, "timm.safetensors"), os.path.join(folder, "untrained")
        save_file(theirs.state_dict(), weights)
        done = init_model(arguments.kiln, name, weights, untrained)
        if done.returncode != 0:
            failures.append(f"{name} of timm: {done.stderr.strip()[-500:]}")
            return float("inf")
        state = torch.load(os.path.join(untrained, "model"))
    ours = reference(name)
    ours.load_state_dict({key.removeprefix("model."): value for key, value in state.items() if key.startswith("model.")})
    with torch.no_grad():
        share = difference(ours.double().eval()(images), theirs.double()(images))
    check(failures, f"{name} of timm", share, arguments.logits_limit)
    return share


def check_relative(arguments, name, relative, said, failures):
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "timm.safetensors")
        save_file(timm.create_model(relative).state_dict(), weights)
        done = init_model(arguments.kiln, name, weights, os.path.join(folder, "untrained"))
        if done.returncode == 0 or said not in done.stderr:
            failures.append(f"{relative} as {name}: {done.returncode}, {done.stderr.strip()[-500:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--timm", action="store_true", help="what needs timm, in place of what does not")
    parser.add_argument("--kiln", help="the program, for files of timm's")
    parser.add_argument("--models", nargs="+", help="these alone")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="of the tool; Python computes on the CPU")
    parser.add_argument("--logits-limit", type=float, default=1e-4, help="TF32 needs a higher one")
    parser.add_argument("--exact-limit", type=float, default=1e-9, help="of logits in float64")
    parser.add_argument("--step-limit", type=float, default=1e-8, help="of a step in float64")
    arguments = parser.parse_args()
    if arguments.timm and not arguments.models and os.environ.get("KILN_NIGHTLY") != "1":
        print("skipped: only with KILN_NIGHTLY=1")
        return 77
    names = subprocess.run([arguments.tool, "names"], capture_output=True, text=True, check=True).stdout.splitlines()
    known = dict(name.split() for name in names)  # the family of each
    first = list({family: name for name, family in reversed(known.items())}.values())
    steps = STEP_MODELS + [name for name in first if known[name] not in {known[other] for other in STEP_MODELS}]
    if not known or not set(arguments.models or []) <= set(known):
        parser.error(f"the tool knows {', '.join(known)}")
    known = {name: family for name, family in known.items() if (name in TIMM) == arguments.timm}
    models = arguments.models or (known if os.environ.get("KILN_NIGHTLY") == "1" else MODELS + first)
    failures = []
    fresh = [name for name, family in known.items() if family not in DESIGNERS]
    files = TIMM_NAMES if arguments.timm else []
    kinds = (("fresh", check_fresh, fresh), ("logits", check_logits, known), ("maps", check_maps, first),
             ("step", check_step, steps), ("timm", check_timm, files))
    for kind, check_model, names in kinds:
        for name in (name for name in names if name in models):
            begin = time.time()
            share = check_model(arguments, name, failures)
            print(f"{kind:6} {name:18} largest difference {share:.2g} of the largest value, "
                  f"{time.time() - begin:.1f} s", flush=True)
    for name, relative, said in RELATIVES if arguments.timm else []:
        if name in models:
            check_relative(arguments, name, relative, said, failures)
            print(f"weights of {relative} are refused as those of {name}")
    for failure in failures[:20]:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
