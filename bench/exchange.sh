#!/usr/bin/env bash
# All-reduce against the parameter server, at as many ranks that train: images/s and the last epoch's top-1 with even ranks, with
# one slow rank, and with ranks that are held up in turn. Prints the table of docs/distributed.md.
#
#   bench/exchange.sh KILN TRAIN_DATA VALID_DATA [RUNS [EPOCHS [WORKERS [OPTIONS OF TRAIN...]]]]
#
# The slow rank is rank 1: it is stopped (SIGSTOP) for half of every 0.2 s while the job trains, and so has half the speed. In turn:
# every second another one of the ranks that train is stopped for half a second. The first epoch of a run is left out. Leave the
# machine alone meanwhile.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 train=$2 valid=$3 runs=${4:-3} epochs=${5:-4} workers=${6:-2}
options=("${@:7}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

cat >"$work/held_up.py" <<'PYTHON'
"""held_up.py even|slow|turns WORKERS COMMAND...: runs a job and holds its ranks up, so many of which train, until it ends."""
import itertools, os, pathlib, re, signal, subprocess, sys, time

how, workers, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
mark = command[command.index("--trained-model-path") + 1]


def ranks():
    """Rank -> process, of this job."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace")
            number = re.search(r"(?:^|\0)OMPI_COMM_WORLD_RANK=(\d+)", (folder / "environ").read_bytes().decode(errors="replace"))
            is_kiln = pathlib.Path(os.readlink(folder / "exe")).name == pathlib.Path(command[0]).name
        except OSError:
            continue
        if number and is_kiln and mark in words:
            found[int(number[1])] = int(folder.name)
    return found


def hold(process, seconds):
    try:
        os.kill(process, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        pass


with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
    turns = itertools.cycle(range(workers))
    log = pathlib.Path(command[command.index("--log-path") + 1]) / "70_driver_log_0.txt"
    while job.poll() is None and not (log.exists() and "Epoch 1," in log.read_text(errors="replace")):
        time.sleep(0.1)
    processes = ranks()
    while job.poll() is None:
        if how == "slow" and 1 in processes:
            hold(processes[1], 0.1)
            time.sleep(0.1)
        elif how == "turns" and processes:
            hold(processes[next(turns)], 0.5)
            time.sleep(0.5)
        else:
            time.sleep(0.2)
sys.exit(job.returncode)
PYTHON

train_as() { # EXCHANGE HOW RUN OPTIONS...
  rm -rf "$work/logs"
  python3 "$work/held_up.py" "$2" "$workers" "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" \
    --valid-data-path "$valid" --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs "$epochs" \
    --patience "$epochs" --threads 1 --loader-threads 1 --batch-size 32 --learning-rate 0.02 --exchange "$1" \
    "${@:4}" "${options[@]}"
  mv "$work/model/training.json" "$work/$1-$2-$3.json"
  rm -r "$work/model"
}
for run in $(seq "$runs"); do
  for how in even slow turns; do
    echo "run $run of $runs, $how" >&2
    train_as all-reduce "$how" "$run" --ranks "$workers"
    train_as parameter-server "$how" "$run" --ranks $((workers + 1))
  done
done
python3 - "$work" "$workers" <<'PYTHON'
import json, pathlib, statistics, sys

folder, workers = pathlib.Path(sys.argv[1]), sys.argv[2]
WORDS = {"even": "even ranks", "slow": "one rank at half the speed", "turns": "each rank stopped in turn"}


def cell(exchange, how):
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob(f"{exchange}-{how}-*.json"))]
    speed = [statistics.mean(epoch["train_images_per_second"] for epoch in run["epochs"][1:]) for run in runs]
    top1 = [100 * run["epochs"][-1]["top1"] for run in runs]
    return (f"{statistics.median(speed):.1f} ({min(speed):.1f} to {max(speed):.1f})",
            f"{statistics.median(top1):.1f} % ({min(top1):.1f} to {max(top1):.1f})")


print(f"| {workers} ranks that train | all-reduce, images/s | top-1 | parameter server, images/s | top-1 |")
print("|---|---|---|---|---|")
for how, words in WORDS.items():
    print("| " + " | ".join((words, *cell("all-reduce", how), *cell("parameter-server", how))) + " |")
PYTHON
