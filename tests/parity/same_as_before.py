#!/usr/bin/env python3
"""Trains with two builds of kiln and compares what they leave behind: weights equal to the bit, metrics.jsonl and
training.json equal in every field that OLD writes, exit codes equal. Times, rates, memory and the wording of messages
are left out (compare_runs.NOT_COMPARED names every key); NEW may write further fields and files.

    same_as_before.py OLD NEW [--only NAME …] [--keep] [--device cuda]

Both programs train in folders of the same shape on the same data, which OLD draws, one after the other. A run that a
signal ends in its second epoch stops at some step: what is compared is the kept epoch, and the steps that both made.
Exit 1: something differs. With --device cuda on the stand-in device (tests/gpu/fake), each program needs its module beside it,
and the environment of tests/gpu/stand_in.py.
"""
import argparse
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from compare_runs import Comparison

PATIENCE = 300  # seconds for a run
MOST_SHOWN = 12
STEPS_BEFORE_STOP = 4
STOPPED = 128 + signal.SIGTERM
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_WAIT_POLICY": "passive",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
ALONE, MPIRUN, LAUNCH, RANKS = "alone", "mpirun", "launch", "--ranks"  # how a run is started


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    network: str = "resnet18"
    how: str = ALONE
    data: str = "data"
    stop_rank: int = -1  # gets SIGTERM in the second epoch
    exit_code: int = 0   # what OLD ends with; else the case shows nothing
    first: dict = dataclasses.field(default_factory=dict)  # options of a run before, from whose checkpoint it resumes
    options: dict = dataclasses.field(default_factory=dict)

    @property
    def num_ranks(self):
        return 1 if self.how == ALONE else 2


def case(name, network="resnet18", how=ALONE, data="data", stop_rank=-1, exit_code=0, first={}, **options):
    return Case(name, network, how, data, stop_rank, exit_code, first, options)


LONG_EPOCHS = {"epochs": 3, "batch_size": 4, "image_size": 64, "patience": 100}
CASES = [
    case("one_epoch", epochs=1, batch_size=16),
    case("plain", augment="none", save="last"),
    case("two_threads", threads=2, loader_threads=2, augment="standard", image_size=48, eval_crop=32),
    case("strong", augment="strong", normalization="imagenet", print_freq=2),
    case("accumulate", accumulate=4, augment="flip", batch_size=4),
    case("warmup", epochs=8, num_warmup_steps=2, learning_rate=0.1),  # the best epoch is not the last
    case("patience", epochs=6, num_warmup_steps=2, patience=1, learning_rate=0.1),  # stops after the second
    case("diverges", learning_rate=1000, epochs=8, patience=100, exit_code=3),
    case("bad_images", data="spoiled", max_bad_images="50%", augment="standard", cache="bytes"),
    case("bad_image_fails", data="spoiled", on_bad_image="fail", exit_code=1),
    case("signal", stop_rank=0, exit_code=STOPPED, **LONG_EPOCHS),
    case("two_ranks", how=MPIRUN, augment="standard", lr_scaling="sqrt"),
    case("two_ranks_accumulate", how=LAUNCH, accumulate=2, batch_size=4, augment="strong"),
    case("two_ranks_bad_images", how=RANKS, data="spoiled", max_bad_images="50%", augment="none"),
    case("two_ranks_diverge", how=MPIRUN, learning_rate=1000, epochs=8, patience=100, exit_code=3),
    case("two_ranks_signal", how=MPIRUN, stop_rank=1, exit_code=STOPPED, **{**LONG_EPOCHS, "batch_size": 2}),
    case("steps", steps=7, augment="flip"),  # the second epoch is cut
    case("features", untrained_model_path="../trained", freeze="backbone", augment="none"),
    case("folds", untrained_model_path="../trained", freeze="backbone", augment="none", folds=3),
    case("auto", untrained_model_path="../trained", auto=True),
    case("two_ranks_auto", how=MPIRUN, untrained_model_path="../trained", auto=True),
    case("resnext50", "resnext50_32x4d", threads=2, augment="standard", batch_size=16),
    case("resnext50_sync_batch_norm", "resnext50_32x4d", how=MPIRUN, sync_batch_norm=True, augment="none"),
    case("densenet121", "densenet121", augment="strong", threads=2, batch_size=16),
    case("densenet121_two_ranks", "densenet121", how=MPIRUN, augment="none"),
    case("list", train_data_path="../data.csv", valid_data_path="../data.csv", augment="flip"),
    case("archive", train_data_path="../data.tar", valid_data_path="../data.tar", epochs=1),
    case("one_set", train_data_path=None, valid_data_path=None, data_path="../data/train", recipe="modern"),
    case("stream", train_data_path="../epoch{epoch}.tar", steps_per_epoch=5, augment="standard"),
    case("several_labels", train_data_path="../several.csv", valid_data_path="../several.csv", task="multi-label", epochs=1),
    case("time_limit", time_limit="2h", recipe="modern"),
    case("resumed", first={"epochs": 1}, checkpoint_path="checkpoints", augment="standard"),
    case("two_ranks_resumed", how=MPIRUN, first={"epochs": 1}, checkpoint_path="checkpoints"),
    case("convnext_tiny", "convnext_tiny", threads=2, epochs=1, optimizer="adamw"),
    case("vit_s_16", "vit_s_16", threads=2, epochs=1, recipe="modern"),
    case("densenet121_memory_efficient", "densenet121_lean", augment="none", accumulate=2, image_size=48),
]


def call(words, folder):
    done = subprocess.run([*map(str, words)], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")


def write_forms(folder):
    """The data as lists, an archive and a stream."""
    files = [path.relative_to(folder) for part in ("train", "val") for path in sorted((folder / "data" / part).rglob("*.*"))]
    rows = [(file, file.parent.name, "train" if "train" in file.parts else "valid") for file in files]
    for name, more in (("data", ("", "")), ("several", ("", ";odd"))):
        (folder / f"{name}.csv").write_text("path,label,split\n" + "".join(
            f"{file},{label}{more[i % 2]},{part}\n" for i, (file, label, part) in enumerate(rows)))
    with tarfile.open(folder / "data.tar", "w") as tar:
        for file in files:
            if "train" in file.parts:
                tar.add(folder / file, f"{file.parent.name}/{file.name}")
    for epoch in range(2):
        with tarfile.open(folder / f"epoch{epoch}.tar", "w") as tar:
            for file in sorted(files[:48], key=lambda file: file.name[::-1]):
                tar.add(folder / file, f"{file.parent.name}/{file.name}")


def prepare(program, folder, cases):
    """Data, a copy of it with bad images, and the untrained models that the cases need."""
    call([program, "demo-data", "--output-path", "data", "--images", 60, "--classes", 3, "--size", 32], folder)
    write_forms(folder)
    shutil.copytree(folder / "data", folder / "spoiled")
    for part, numbers in (("train", (3, 12, 20)), ("val", (5,))):
        images = sorted(path for path in (folder / "spoiled" / part).rglob("*") if path.is_file())
        for number in numbers:
            images[number].write_bytes(b"no image")
    cut = sorted((folder / "spoiled/train").rglob("*.jpg"))[-1]
    cut.write_bytes(cut.read_bytes()[:-100])  # decoded as far as it goes, and used
    for network in sorted({one.network for one in cases}):
        lean = ["--memory-efficient", "True"] if network.endswith("_lean") else []
        call([program, "init-model", network.removesuffix("_lean"), "--untrained-model-path", network, *lean], folder)
    if any("untrained_model_path" in one.options for one in cases):
        call([program, "train", "--untrained-model-path", "resnet18", "--data-path", "data/train", "--epochs", 1,
              "--trained-model-path", "trained", "--log-path", "trained-logs"], folder)


def words_of(case, program, device, more):
    """Of the case with `more` options. With paths relative to the run's folder, which is beside those of `prepare`: they stand in the records."""
    options = {"untrained_model_path": f"../{case.network}", "train_data_path": f"../{case.data}/train",
               "valid_data_path": f"../{case.data}/val", "trained_model_path": "model", "log_path": "logs", "epochs": 2,
               "batch_size": 8, "threads": 1, "loader_threads": 1, "device": device, "print_freq": 1, **case.options,
               **more}
    if case.how == RANKS:
        options["ranks"] = case.num_ranks
    train = ["train", *(word for name, value in options.items() if value is not None
                        for word in ("--" + name.replace("_", "-"), str(value)))]
    before = {MPIRUN: ["mpirun", "--oversubscribe", "-np", str(case.num_ranks), program],
              LAUNCH: [program, "launch", "--ranks", str(case.num_ranks), "--"]}
    return [*before.get(case.how, [program]), *train]


def rank_process(folder, rank):
    """The process of that rank of the run in `folder`."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes().split(b"\0")
            if f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment and os.readlink(process / "cwd") == str(folder):
                return int(process.name)
        except OSError:
            pass
    raise AssertionError(f"there is no rank {rank} in {folder}")


def send_stop(case, job, folder):
    """In the second epoch, some steps after its beginning."""
    metrics = folder / "logs/metrics.jsonl"
    last = time.monotonic() + PATIENCE
    while not metrics.exists() or metrics.read_text().replace(" ", "").count('"epoch":2,') < STEPS_BEFORE_STOP:
        if job.poll() is not None or time.monotonic() > last:
            return
        time.sleep(0.005)
    os.kill(job.pid if case.how == ALONE else rank_process(folder, case.stop_rank), signal.SIGTERM)


def run_case(case, program, folder, device):
    """Its exit code, and seconds."""
    folder.mkdir()
    begin = time.monotonic()
    settings = {"cwd": folder, "stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "env": {**os.environ, **ENVIRONMENT}}
    if case.first:
        with open(folder / "first.txt", "wb") as output:
            subprocess.run(words_of(case, program, device, case.first), stdout=output, timeout=PATIENCE, check=True, **settings)
    with open(folder / "output.txt", "wb") as output:
        job = subprocess.Popen(words_of(case, program, device, {}), stdout=output, start_new_session=True, **settings)
        try:
            if case.stop_rank >= 0:
                send_stop(case, job, folder)
            code = job.wait(PATIENCE)
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
                job.wait()
    return code, time.monotonic() - begin


def require_as_meant(case, code, events, output):
    """What a case is for has to have happened in OLD."""
    if code != case.exit_code:
        raise SystemExit(f"{case.name}: OLD ends with {code} and not {case.exit_code}:\n{output[-3000:]}")
    whole_epochs = sum(event["event"] == "epoch" for event in events)
    if case.stop_rank >= 0 and whole_epochs != 1:
        raise SystemExit(f"{case.name}: the signal came after {whole_epochs} epochs, not in the second: run it again")


def compare_case(case, programs, folder, device):
    """The comparison, and what the line of the case says of it."""
    runs = [folder / f"{case.name}-{which}" for which in ("old", "new")]
    outcomes = [run_case(case, program, run, device) for program, run in zip(programs, runs)]
    comparison = Comparison(*runs)
    if outcomes[0][0] != outcomes[1][0]:
        comparison.differ("exit code", "", outcomes[0][0], outcomes[1][0])
    events = comparison.compare_events("logs/metrics.jsonl", last_epoch_is_cut=case.stop_rank >= 0)
    require_as_meant(case, outcomes[0][0], events, (runs[0] / "output.txt").read_text(errors="replace"))
    comparison.compare_record("logs/module_statistics/error_info.json")
    comparison.compare_model("model")
    story = (f"exit code {outcomes[0][0]}, {comparison.num_tensors} tensors, {comparison.num_events} events, "
             f"{comparison.num_fields} fields; {outcomes[0][1]:.1f} s and {outcomes[1][1]:.1f} s")
    return comparison, story


def compare_all(cases, programs, folder, keep, device):
    """How many cases failed."""
    num_failed = 0
    for case in cases:
        comparison, story = compare_case(case, programs, folder, device)
        for run in () if keep else (comparison.old, comparison.new):
            shutil.rmtree(run)
        differences = comparison.differences
        print(f"{'DIFFERS' if differences else 'equal':8} {case.name:29} {story}", flush=True)
        for difference in differences[:MOST_SHOWN]:
            print(f"    {case.name}: {difference}")
        if len(differences) > MOST_SHOWN:
            print(f"    {case.name}: and {len(differences) - MOST_SHOWN} more")
        num_failed += bool(differences)
    return num_failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [case.name for case in CASES]
    parser.add_argument("old", metavar="OLD", help="the program as it was")
    parser.add_argument("new", metavar="NEW", help="the program as it is")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=names, default=names, help="cases: " + ", ".join(names))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="what they train on")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the runs, and say where they are")
    arguments = parser.parse_args()
    programs = [shutil.which(str(pathlib.Path(program).resolve())) for program in (arguments.old, arguments.new)]
    if None in programs:
        parser.error("OLD and NEW are programs that can be run")
    cases = [case for case in CASES if case.name in arguments.only]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-same-")).resolve()
    try:
        prepare(programs[0], folder, cases)
        num_failed = compare_all(cases, programs, folder, arguments.keep, arguments.device)
    finally:
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(cases) - num_failed} passed, {num_failed} failed")
    return 1 if num_failed else 0


if __name__ == "__main__":
    sys.exit(main())
