#!/usr/bin/env python3
"""What a hundred times more images, classes, steps and ranks cost: prints the tables of docs/performance.md.

    bench/scale.py BUILD [images|classes|record|ranks|jobs|lost|pack]... [--scratch DIR] [--images 7] [--photos DIR] [--ranks 4,16,64]

BUILD is the folder with kiln and kiln_bench. Without names, all parts; an hour and 8 GB of disk for ten million images. The
images are names of one small file, the record that of a run that never was, and `ranks` a world in one process: these are
simulations. `jobs` and `lost` are real ranks on this machine, `pack` real photographs.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_orte_abort_print_stack": "0"}


def table(head, rows):
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def short(number):
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"


def measure(options, part, count, **more):
    scratch = options.scratch / "scale"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    words = [word for name, value in more.items() for word in ("--" + name.replace("_", "-"), str(value))]
    try:
        result = subprocess.run([options.build / "kiln_bench", "scale", "--part", part, "--count", str(count), "--folder", scratch, *words],
                                capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if result.returncode != 0:
        sys.exit(result.stderr)
    return json.loads(result.stdout)


def images(options):
    """Microseconds and bytes an image."""
    found = [measure(options, "images", 10 ** power) for power in range(4, options.images + 1)]
    steps = [name for name, value in found[0].items() if isinstance(value, dict) and name != "make"]
    each = {step: [10 ** 6 * one[step]["seconds"] / one["count"] for one in found if step in one] for step in steps}
    table(["microseconds an image"] + [f"{int(one['count']):,} images" for one in found],
          [[step] + [short(value) for value in each[step]] for step in steps])
    sizes = [name for name, value in found[0].items() if name.endswith("bytes") or "_bytes_" in name]
    table(["bytes an image"] + [f"{int(one['count']):,} images" for one in found],
          [[name] + [short(one[name] / one["count"]) for one in found if name in one] for name in sizes] +
          [["peak of " + step] + [short(max(0, one[step]["peak_bytes"]) / one["count"]) for one in found if step in one] for step in steps])


def by_count(options, part, counts, unit):
    found = [measure(options, part, count) for count in counts]
    rows = []
    for name, value in found[0].items():
        if isinstance(value, dict):
            rows.append([name + ", s"] + [f"{one[name]['seconds']:.3f}" for one in found])
            rows.append([name + ", peak MB"] + [short(max(0, one[name]["peak_bytes"]) / 1e6) for one in found])
        elif name != "count":
            rows.append([name] + [short(one[name]) for one in found])
    table([""] + [f"{count:,} {unit}" for count in counts], rows)


def job_words(options, folder, ranks, mpi=()):
    return ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *mpi, options.build / "kiln", "train",
            "--model-name", "resnet18", "--train-data-path", folder / "data/train", "--valid-data-path", folder / "data/val",
            "--trained-model-path", folder / "model", "--log-path", folder / "logs", "--checkpoint-path", folder / "checkpoints",
            "--epochs", "1", "--batch-size", "2", "--device", "cpu", "--threads", "1", "--loader-threads", "1", "--print-freq", "1"]


def prepare(options, folder, ranks, steps):
    subprocess.run([options.build / "kiln", "demo-data", "--output-path", folder / "data", "--images", str(2 * ranks * steps * 5 // 4),
                    "--classes", "2", "--size", "8"], check=True, capture_output=True)


def sent_by_rank_0(prefix):
    """Messages and bytes, as Open MPI's monitoring counts them."""
    text = pathlib.Path(f"{prefix}.0.prof").read_text(encoding="utf-8")
    lines = re.findall(r"^[EI]\t0\t\d+\t(\d+) bytes\t(\d+) msgs sent", text, re.M)
    return sum(int(count) for _, count in lines), sum(int(size) for size, _ in lines)


def jobs(options):
    rows = []
    for ranks in options.ranks:
        with tempfile.TemporaryDirectory(dir=options.scratch) as name:
            folder = pathlib.Path(name)
            prepare(options, folder, ranks, 2)
            monitor = ["--mca", "pml_monitoring_enable", "1", "--mca", "pml_monitoring_enable_output", "3",
                       "--mca", "pml_monitoring_filename", str(folder / "sent")]
            begin = time.monotonic()
            result = subprocess.run(job_words(options, folder, ranks, monitor), capture_output=True, text=True, check=False,
                                    env={**os.environ, **MPI}, timeout=900)
            seconds = time.monotonic() - begin
            if result.returncode != 0:
                print(f"{ranks} ranks failed after {seconds:.0f} s: {result.stdout[-1500:]}{result.stderr[-1500:]}")
                continue
            training = json.loads((folder / "model/training.json").read_text(encoding="utf-8"))
            epoch = training["epochs"][0]
            messages, size = sent_by_rank_0(folder / "sent")
            rows.append([str(ranks), f"{training['start_to_first_step_seconds']:.1f}", f"{epoch['train_seconds']:.1f}", f"{seconds:.1f}",
                         f"{messages:,}", f"{size / 1e6:.1f}"])
    table(["ranks", "to the first step, s", "two steps, s", "whole job, s", "messages rank 0 sends", "MB rank 0 sends"], rows)
    return len(rows) == len(options.ranks)


def processes_of(folder):
    found = {}
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().decode(errors="replace")
            environment = (path / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        rank = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", environment)
        if rank and str(folder) in words and "/kiln\0" in words:
            found[int(rank[1])] = int(path.name)
    return found


def lost(options):
    """A rank in the middle is suspended, and in another job killed, after the first step."""
    rows = []
    for how in (signal.SIGSTOP, signal.SIGKILL):
        ranks = options.ranks[-1]
        with tempfile.TemporaryDirectory(dir=options.scratch) as name:
            folder = pathlib.Path(name)
            prepare(options, folder, ranks, 50)
            with open(folder / "output", "wb") as output:
                job = subprocess.Popen([*job_words(options, folder, ranks), "--collective-timeout", "60"], stdout=output,
                                       stderr=subprocess.STDOUT, env={**os.environ, **MPI})
                log = folder / "logs/70_driver_log_0.txt"
                while job.poll() is None and not (log.exists() and "Iter: [1/" in log.read_text(errors="replace")):
                    time.sleep(0.5)
                time.sleep(5)
                begin = time.monotonic()
                os.kill(processes_of(folder)[ranks * 5 // 8], how)
                code = job.wait(timeout=600)
            error = folder / "logs/module_statistics/error_info.json"
            said = error.read_text(encoding="utf-8") if error.exists() else (folder / "output").read_text(errors="replace")
            told = re.search(r"(Waited .*?\.|rank \d+ on host[^\"]{0,160}|mpirun noticed[^\n]*)", said.replace("\\n", " "))
            rows.append([how.name, f"{time.monotonic() - begin:.1f}", str(code), told[0][:200] if told else said[-200:]])
    table([f"rank {options.ranks[-1] * 5 // 8} of {options.ranks[-1]} gets", "the job ends after, s", "code", "what is said"], rows)
    return all(float(seconds) < 200 for _, seconds, _, _ in rows)


def pack(options):
    """`kiln pack` beside a copy of the same bytes, and beside the bare loop of libjpeg-turbo, in turn."""
    if options.photos is None:
        return print("not measured without --photos")
    rates = {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as name:
        folder = pathlib.Path(name)
        photos = sorted(path for path in options.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
        for i in range(options.copies):
            for photo in photos:
                target = folder / "photos" / photo.parent.name / f"{i}-{photo.stem}.jpg"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(photo, target)
        size = sum(path.stat().st_size for path in (folder / "photos").rglob("*.jpg"))
        count = len(photos) * options.copies

        def note(what, seconds):
            rates.setdefault(what, []).append((count / seconds, size / seconds / 1e6))

        def timed(what, words):
            begin = time.monotonic()
            result = subprocess.run(words, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                sys.exit(result.stdout + result.stderr)
            note(what, time.monotonic() - begin)

        for _ in range(options.rounds):
            copying = f"find '{folder}/photos' -name '*.jpg' -print0 | xargs -0 cat > '{folder}/all'; sync '{folder}/all'"
            timed("copy and sync", ["sh", "-c", copying])
            (folder / "all").unlink()
            words = [options.build / "kiln", "pack", folder / "photos", folder / "shards"]
            timed("kiln pack", words)
            shutil.rmtree(folder / "shards")
            result = subprocess.run([options.build / "kiln_bench", "scale", "--part", "jpegs", "--folder", folder / "photos",
                                     "--short-side", "256"], check=True, capture_output=True, text=True)
            note("bare libjpeg-turbo", json.loads(result.stdout)["jpegs"]["seconds"])
            timed("kiln pack --short-side 256", [*words, "--short-side", "256"])
            shutil.rmtree(folder / "shards")
    middle = {what: statistics.median(rate for rate, _ in found) for what, found in rates.items()}
    peers = {"kiln pack": "copy and sync", "kiln pack --short-side 256": "bare libjpeg-turbo"}
    table([f"{count:,} photographs, {size / 1e6:.0f} MB", "images/s", "MB/s", "of its peer"],
          [[what, f"{middle[what]:,.0f} ({min(found)[0]:,.0f} to {max(found)[0]:,.0f})",
            f"{statistics.median(rate for _, rate in found):.0f}",
            f"{middle[what] / middle[peers[what]]:.2f}" if what in peers else ""] for what, found in rates.items()])


PARTS = {"images": images,
         "classes": lambda options: by_count(options, "classes", [1000, 10_000, 100_000], "classes"),
         "record": lambda options: by_count(options, "record", [10 ** power for power in range(4, 8)], "steps"),
         "ranks": lambda options: by_count(options, "ranks", [10, 100, 1000], "ranks"),
         "jobs": jobs, "lost": lost, "pack": pack}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp"))
    parser.add_argument("--images", type=int, default=7, help="the largest power of ten")
    parser.add_argument("--photos", type=pathlib.Path, help="JPEG files in folders, for pack")
    parser.add_argument("--copies", type=int, default=10, help="of the photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ranks", type=lambda text: [int(word) for word in text.split(",")], default=[4, 16, 64])
    options = parser.parse_args()
    options.build = options.build.resolve()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores")
    for part in options.parts or PARTS:
        print(f"\n## {part}", flush=True)
        PARTS[part](options)


if __name__ == "__main__":
    main()
