#!/usr/bin/env python3
"""A trainer of other people's parts, for bench/accuracy.sh: timm's, torchvision's, or scikit-learn's logistic regression on
frozen features. Same network (a ResNet-18), images, hyperparameters and validation as the Kiln run beside it.
    bench/accuracy_timm.py timm|torchvision TRAIN VALID [--epochs N] [--batch-size N] [--seed N] [--precision fp32|bf16]
    bench/accuracy_timm.py logistic TRAIN VALID --weights FILE     # a state dict with torchvision's names

Prints one JSON line: the accuracy on VALID at the end, over the epochs, and the CPU seconds.
"""
import argparse
import functools
import json
import time

import torch
import torchvision
from torchvision.transforms import v2

HALF = (0.5, 0.5, 0.5)
RATE, LEAST_RATE, START_RATE, MOMENTUM, DECAY, WARMUP_EPOCHS = 0.128, 1e-7, 1e-4, 0.9, 0.0005, 1  # the rate is for batches of 128
SMOOTHING, AVERAGE = 0.1, 0.99


@functools.cache
def decoded(path):
    return torchvision.datasets.folder.pil_loader(path)


def loader(folder, transform, batch, is_training):
    images = torchvision.datasets.ImageFolder(folder, transform, loader=decoded)
    return torch.utils.data.DataLoader(images, batch, shuffle=is_training, drop_last=is_training)


def plain():
    return v2.Compose([v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(HALF, HALF)])


class Timm:
    """timm's network, transform, mixing, loss, optimizer, schedule and averages."""
    def __init__(self, classes, steps, warmup):
        from timm import create_model, data, loss, optim, scheduler, utils
        self.model = create_model("resnet18", num_classes=classes, zero_init_last=True)
        self.transform = data.create_transform(32, is_training=True, interpolation="bilinear", color_jitter=None,
                                                    mean=HALF, std=HALF)
        self.mix = data.Mixup(mixup_alpha=0.1, mode="pair", label_smoothing=SMOOTHING, num_classes=classes)
        self.loss = loss.SoftTargetCrossEntropy()
        self.optimizer = optim.create_optimizer_v2(self.model, "sgd", lr=RATE, weight_decay=DECAY, momentum=MOMENTUM)
        self.schedule = scheduler.CosineLRScheduler(self.optimizer, steps - warmup, lr_min=LEAST_RATE, warmup_t=warmup,
                                                         warmup_lr_init=START_RATE, warmup_prefix=True, t_in_epochs=False)
        self.schedule.step_update(0)
        self.averages = utils.ModelEmaV3(self.model, decay=AVERAGE, use_warmup=True, warmup_gamma=9, warmup_power=1)

    def stepped(self, step):
        self.averages.update(self.model, step)
        self.schedule.step_update(step)


class Torchvision:
    """torchvision's network and transforms, PyTorch's loss, optimizer, schedule and averages: the parts of its reference trainer
    (references/classification), whose rate is set for every step here, as Kiln's."""
    def __init__(self, classes, steps, warmup):
        self.model = torchvision.models.resnet18(num_classes=classes, zero_init_residual=True)
        self.transform = v2.Compose([v2.RandomResizedCrop(32, antialias=True), v2.RandomHorizontalFlip(), v2.TrivialAugmentWide(),
                                     *plain().transforms, v2.RandomErasing(0.25)])
        self.mix = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=classes), v2.CutMix(alpha=1.0, num_classes=classes)])
        self.loss = torch.nn.CrossEntropyLoss(label_smoothing=SMOOTHING)
        groups = [[weight for weight in self.model.parameters() if (weight.ndim > 1) == decays] for decays in (True, False)]
        self.optimizer = torch.optim.SGD([{"params": groups[0]}, {"params": groups[1], "weight_decay": 0}], lr=RATE,
                                         momentum=MOMENTUM, nesterov=True, weight_decay=DECAY)
        schedules = [torch.optim.lr_scheduler.LinearLR(self.optimizer, START_RATE / RATE, total_iters=warmup),
                     torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps - warmup, LEAST_RATE)]
        self.schedule = torch.optim.lr_scheduler.SequentialLR(self.optimizer, schedules, [warmup])
        swa = torch.optim.swa_utils
        self.averages = swa.AveragedModel(self.model, multi_avg_fn=swa.get_ema_multi_avg_fn(AVERAGE), use_buffers=True)

    def stepped(self, step):
        self.averages.update_parameters(self.model)
        self.schedule.step()


def precise(precision):
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")


def accuracy(model, batches, precision):
    model.eval()
    with torch.no_grad(), precise(precision):
        right = sum((model(images.to(memory_format=torch.channels_last)).argmax(1) == labels).sum().item()
                    for images, labels in batches)
    return right / len(batches.dataset)


def trained(options):
    torch.manual_seed(options.seed)
    valid = loader(options.valid, plain(), 250, False)
    steps = options.epochs * (sum(1 for _ in torchvision.datasets.ImageFolder(options.train).samples) // options.batch_size)
    parts = {"timm": Timm, "torchvision": Torchvision}[options.trainer](
        len(valid.dataset.classes), steps, WARMUP_EPOCHS * steps // options.epochs)
    train = loader(options.train, parts.transform, options.batch_size, True)
    parts.model.to(memory_format=torch.channels_last)
    course, step = [], 0
    for _ in range(options.epochs):
        parts.model.train()
        for images, labels in train:
            mixed, targets = parts.mix(images, labels)
            with precise(options.precision):
                loss = parts.loss(parts.model(mixed.to(memory_format=torch.channels_last)), targets)
            parts.optimizer.zero_grad()
            loss.backward()
            parts.optimizer.step()
            parts.stepped(step := step + 1)
        course.append(accuracy(parts.averages.module, valid, options.precision))
    return {"top1": course[-1], "course": course}


def regressed(options):
    """Logistic regression on the standardized features, its penalty chosen in five folds by their loss."""
    import numpy as np
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    state = torch.load(options.weights, weights_only=True)
    model = torchvision.models.resnet18(num_classes=len(state["fc.bias"]))
    model.load_state_dict(state)
    model.eval().fc = torch.nn.Identity()
    features, labels = {}, {}
    for part in ("train", "valid"):
        with torch.no_grad():
            pairs = [(model(images), numbers) for images, numbers in loader(getattr(options, part), plain(), 250, False)]
        features[part], labels[part] = (torch.cat(values).double().numpy() for values in zip(*pairs, strict=True))
    fitted = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=np.logspace(-4, 1, 11), cv=5, scoring="neg_log_loss", max_iter=1000))
    fitted.fit(features["train"], labels["train"])
    return {"top1": float((fitted.predict(features["valid"]) == labels["valid"]).mean())}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("trainer", choices=["timm", "torchvision", "logistic"])
    parser.add_argument("train")
    parser.add_argument("valid")
    for name, default in {"epochs": 12, "batch-size": 128, "seed": 1, "threads": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--weights")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    row = regressed(options) if options.trainer == "logistic" else trained(options)
    print(json.dumps({"trainer": options.trainer, "seed": options.seed, **row, "seconds": round(time.process_time())}))


if __name__ == "__main__":
    main()
