#!/usr/bin/env python3
"""How many times as fast every family is in bf16 as in float32 on this CPU: what `--precision auto` goes by
(src/model/catalogue.cpp). Step by step in turn within one process, so that what else the machine does meets both.

    bench/precision.py OUT [NETWORK...]      OUT: JSON lines; resumes. Prints the table of all that is in OUT

KILN_BENCH is the program, SIZES the sides of the images (64 128 224), THREADS the compute threads (2). With
ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 a CPU with AMX computes as one without. Median, least and most of the ratios, and in
brackets the median in processor time, which with one thread hardly depends on what else the machine does."""
import json
import os
import pathlib
import subprocess
import sys

NETWORKS = ["resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "mobilenet_v3_large", "efficientnet_b0",
            "efficientnet_v2_s", "convnext_tiny", "vit_s_16"]
BATCHES, STEPS = {64: 32, 128: 16, 224: 8}, {64: 9, 128: 7, 224: 5}
BENCH = os.environ.get("KILN_BENCH", str(pathlib.Path(__file__).parents[1] / "build/release/kiln_bench"))
SIZES = [int(word) for word in os.environ.get("SIZES", "64 128 224").split()]


def measure(network, size, inference):
    words = [BENCH, "step", "--model-name", network, "--size", size, "--batch-size", BATCHES.get(size, 16), "--classes", 10,
             "--threads", os.environ.get("THREADS", "2"), "--precision", "bf16", "--against", "fp32", "--steps", STEPS.get(size, 7) * (2 if inference else 1),
             *(["--inference"] if inference else [])]
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def cell(rows):
    """Of several rounds, the one in the middle by its ratio, and the spread over all."""
    if not rows:
        return ""
    row = sorted(rows, key=lambda one: one["times_as_fast"])[len(rows) // 2]
    least, most = (pick(one[f"times_as_fast_{name}"] for one in rows) for pick, name in ((min, "least"), (max, "most")))
    return f"{row['times_as_fast']:.2f} ({least:.2f} to {most:.2f}) [{row['times_as_fast_by_processor']:.2f}]"


def main():
    out, networks = pathlib.Path(sys.argv[1]), sys.argv[2:] or NETWORKS
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    for network in networks:
        for size in SIZES:
            for inference in (False, True):
                key = (network, size, inference)
                if any((row["model_name"], row["image_size"], row["inference"]) == key for row in rows):
                    continue
                rows.append(measure(*key))
                with out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    for inference, title in ((False, "a training step"), (True, "inference")):
        print(f"| {title} | " + " | ".join(f"{size} px" for size in SIZES) + " |\n|---" + "|---" * len(SIZES) + "|")
        for network in dict.fromkeys(row["model_name"] for row in rows):
            cells = [cell([row for row in rows
                           if (row["model_name"], row["image_size"], row["inference"]) == (network, size, inference)])
                     for size in SIZES]
            print(f"| {network} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
