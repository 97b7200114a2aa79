"""Images per second of PyTorch's training step (forward, loss, backward, SGD) on random images, for comparison with kiln's.

Every combination of the lists given is one JSON line. The device is waited for only where a measurement begins and ends.
"""
import argparse
import gc
import itertools
import json
import time

import torch
import torchvision


def set_precision(precision):
    """As kiln's --precision. Returns the type of autocast, or None."""
    torch.backends.cuda.matmul.allow_tf32 = precision != "fp32"
    torch.backends.cudnn.allow_tf32 = True
    return {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


def measure(arguments, name, batch, precision, layout, benchmark):
    """Images per second and peak bytes of the device."""
    device = arguments.device
    dtype = set_precision(precision)
    torch.backends.cudnn.benchmark = benchmark == "on"
    torch.manual_seed(0)
    memory_format = {"nhwc": torch.channels_last, "nchw": torch.contiguous_format}[layout]
    model = getattr(torchvision.models, name)(num_classes=10).to(device, memory_format=memory_format)
    if arguments.compile:
        model = torch.compile(model)
    images = torch.randn(batch, 3, arguments.size, arguments.size, device=device).contiguous(memory_format=memory_format)
    labels = torch.randint(0, 10, (batch,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-4, fused=True)
    scaler = torch.amp.GradScaler(device, enabled=dtype is torch.float16)

    def step():
        with torch.autocast(device, dtype=dtype, enabled=dtype is not None):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(arguments.warmup):
        step()
    wait()
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < arguments.seconds:
        for _ in range(arguments.steps):
            step()
        wait()
        done += arguments.steps
    rate = done * batch / (time.perf_counter() - begin)
    return rate, torch.cuda.max_memory_reserved() if device == "cuda" else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--models", nargs="+", default=["resnet50"])
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batches", type=int, nargs="+", default=[64])
    parser.add_argument("--precisions", nargs="+", default=["tf32"], choices=["fp32", "tf32", "bf16", "fp16"])
    parser.add_argument("--layouts", nargs="+", default=["nhwc"], choices=["nhwc", "nchw"])
    parser.add_argument("--benchmark", nargs="+", default=["on"], choices=["on", "off"])
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="between two waits for the device")
    parser.add_argument("--seconds", type=float, default=3, help="of each measurement, at least")
    arguments = parser.parse_args()
    for name, batch, precision, layout, benchmark in itertools.product(
            arguments.models, arguments.batches, arguments.precisions, arguments.layouts, arguments.benchmark):
        row = {"model": name, "size": arguments.size, "batch": batch, "precision": precision, "layout": layout,
               "benchmark": benchmark, "compiled": arguments.compile}
        try:
            rate, peak = measure(arguments, name, batch, precision, layout, benchmark)
            row.update(img_per_s=round(rate, 1), peak_bytes=peak)
        except torch.OutOfMemoryError:
            row["failure"] = "out of memory"
        print(json.dumps(row), flush=True)
        gc.collect()
        if arguments.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
