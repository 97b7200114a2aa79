"""Makes metrics.jsonl files of runs that never were, for tests of what is made from them. Standard library only."""
import base64
import json
import math
import random

ANIMALS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
# A JPEG file of 8x8 gray pixels.
JPEG = ("/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAx"
        "NDQ0Hyc5PTgyPC4zNDL/wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAI"
        "AQEAAD8AP//Z")
LABELS_OF_STRANGERS = ("<script>document.title = 'taken over'</script>", "\"quotes\" & 'more'", "two\nlines\tand a tab",
                       "\u202eמימין לשמאל", "x" * 300, "</title><img src=x onerror=alert(1)>")


def totals(images, loss, top1, top5):
    loss_sum = loss if isinstance(loss, str) else loss * images
    return {"images": images, "loss_sum": loss_sum, "top1": round(top1 * images), "top5": round(top5 * images)}


def confusion(rng, counts, accuracy):
    """Cells of a matrix in which neighbors are confused most."""
    cells = {}
    for truth, count in enumerate(counts):
        own = min(1, max(0, accuracy + rng.uniform(-.2, .15)))
        for _ in range(count):
            away = min(len(counts) - 1, int(rng.expovariate(.6)) + 1)
            guess = truth if rng.random() < own else (truth + (away if rng.random() < .5 else -away)) % len(counts)
            cells[truth, guess] = cells.get((truth, guess), 0) + 1
    return [[truth, guess, count] for (truth, guess), count in sorted(cells.items())]


class RunFile:
    """A run of which the parts can be changed before it is written."""

    def __init__(self, classes=ANIMALS, epochs=20, steps=100, seed=1, valid_per_class=100):
        self.rng = random.Random(seed)
        self.classes, self.epochs, self.num_steps = list(classes), epochs, steps
        self.valid_counts = [valid_per_class] * len(classes)
        self.train_counts = [round(500 * self.rng.uniform(.6, 1.2)) for _ in classes]
        self.start = {
            "event": "start", "time": 1772373900.0, "options": {"epochs": str(epochs), "learning-rate": "0.01",
                                                                "batch-size": "64", "augment": "flip"},
            "versions": {"kiln": "0.1.0", "LibTorch": "2.11.0"},
            "command": "kiln train --untrained-model-path untrained --train-data-path 'my photos/train'",
            "model": "resnet18", "device": "CPU (2 threads)", "num_parameters": 11181642, "num_ranks": 1,
            "num_epochs": epochs, "steps_per_epoch": steps, "global_batch": 64,
            "data": {"train_path": "photos/train", "valid_path": "photos/val", "classes": self.classes,
                     "train_counts": self.train_counts, "valid_counts": self.valid_counts, "image_height": 32,
                     "image_width": 32, "augment": "flip", "eval_height": 32, "eval_width": 32, "normalization": "half",
                     "mean": [.5, .5, .5], "std": [.5, .5, .5]}}
        self.events, self.pictures = [], b""
        for epoch in range(1, epochs + 1):
            self.events += [self.step(epoch, step) for step in range(10, steps + 1, 10)]
            self.events.append(self.epoch(epoch))
        self.end = {"event": "end", "time": self.start["time"] + 30 * epochs, "status": "finished",
                    "saved_epoch": epochs, "model_path": "model", "total_seconds": 31.5 * epochs,
                    "peak_memory_bytes": 820_000_000, "image_faults": []}

    def learned(self, epoch):
        return 1 - math.exp(-epoch / 6)

    def step(self, epoch, step):
        loss = 2.3 - 1.9 * self.learned(epoch - 1 + step / self.num_steps) + self.rng.gauss(0, .12)
        return {"event": "step", "time": self.start["time"] + 30 * epoch, "epoch": epoch, "num_epochs": self.epochs,
                "step": step, "num_steps": self.num_steps, "learning_rate": self.rate(epoch),
                "batch": totals(64, loss, .5, .9), "so_far": totals(64 * step, loss, .5, .9),
                "batch_images_per_second": self.rng.gauss(260, 18)}

    def rate(self, epoch):
        return .005 * (1 + math.cos(math.pi * (epoch - 1) / self.epochs))

    def epoch(self, epoch):
        learned, images = self.learned(epoch), sum(self.train_counts)
        return {"event": "epoch", "time": self.start["time"] + 30 * epoch, "epoch": epoch, "num_steps": self.num_steps,
                "learning_rate": self.rate(epoch), "average_images_per_second": 251.5,
                "train_images_per_second": self.rng.gauss(250, 6),
                "train": totals(images, 2.3 - 1.85 * learned, .1 + .75 * learned, .5 + .49 * learned),
                "valid": totals(sum(self.valid_counts), 2.3 - 1.6 * learned + self.rng.gauss(0, .03),
                                .1 + .66 * learned + self.rng.gauss(0, .008), .5 + .48 * learned),
                "train_seconds": 24 + self.rng.uniform(0, 2), "valid_seconds": 3.1, "data_wait_seconds": 9.1,
                "seconds": {"data_wait": 9.1, "forward": 4.2, "backward": 8.9, "communication": 0, "optimizer": .9}}

    def judge(self, jpeg=JPEG, num_wrong=12):
        """Gives the last epoch a confusion matrix and wrong images."""
        cells = confusion(self.rng, self.valid_counts, .74)
        jpeg = base64.b64decode(jpeg)
        none = {"height": 0, "width": 0, "bytes": 0}
        self.wrong = [{"file": f"image/{number}.png", "truth": truth, "guess": guess, "confidence": .999 - .004 * number,
                       "best": [{"label": guess, "share": .999 - .004 * number}, {"label": truth, "share": .001 + .003 * number}],
                       "thumbnail": {"height": 8, "width": 8, "bytes": len(jpeg)}, "heat_map": none}
                      for number, (truth, guess, _) in enumerate([cell for cell in cells if cell[0] != cell[1]][:num_wrong])]
        last = [event for event in self.events if event["event"] == "epoch"][-1]
        last["judgement"] = {"epoch": last["epoch"], "confusion": {"num_classes": len(self.classes), "cells": cells}}
        gallery = {"id": "pictures", "heading": "Answers", "lead": "", "word": "", "images": self.wrong}
        about = {"started": self.start["time"], "epoch": last["epoch"], "galleries": [gallery]}
        self.pictures = json.dumps(about).encode() + b"\n" + jpeg * len(self.wrong)
        return self

    def write(self, folder):
        """The path of `folder`, with the run in it; `end` of None leaves it without one."""
        folder.mkdir(parents=True, exist_ok=True)
        lines = [self.start, *self.events] + ([self.end] if self.end else [])
        if self.pictures:
            (folder / "pictures.bin").write_bytes(self.pictures)
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return folder
