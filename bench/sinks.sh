#!/usr/bin/env bash
# The cost of reporting a run: all sinks on, and a tracking server that hangs, beside no sinks, on the same images in one run.
#
#   bench/sinks.sh TRAIN_DATA VALID_DATA [RUNS [EPOCHS [OPTIONS OF TRAIN...]]]
#
# Every step is reported (--print-freq 1), ten times as often as by default. The server is a real `mlflow server` on this machine,
# whose processor time is the machine's as well: images per processor second are kiln's alone. Jobs differ by several percent
# by themselves, so kiln_sinks_bench replays each run at its own pace: how long training was held up, and all processor
# time that reporting took, are known to the microsecond, and are shown as shares of the job's. Needs the Python packages of
# environment/install.sh. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
train=$(realpath "$1") valid=$(realpath "$2") runs=${3:-3} epochs=${4:-1}
options=("${@:5}")
root=$(cd "$(dirname "$0")/.." && pwd)
kiln=${KILN:-$root/build/release/kiln}
tell_again=${KILN_SINKS_BENCH:-$root/build/release/kiln_sinks_bench}
[ -d "$root/.deps/mlflow" ] || { echo "sinks.sh: no MLflow: run environment/install.sh" >&2; exit 1; }
work=$(mktemp -d)
# A folder in which `logs` is a file: neither a sink nor the log file can begin there.
mkdir "$work/off" "$work/all" "$work/hangs"
touch "$work/off/logs"

PYTHONPATH=$root/tests/flow python3 - "$work" <<'PYTHON' &
import pathlib, signal, socket, sys
from mlflow_server import MlflowServer

signal.signal(signal.SIGTERM, lambda *_: sys.exit())
work = pathlib.Path(sys.argv[1])
silent = socket.create_server(("127.0.0.1", 0))
server = MlflowServer(work)
try:
    server.wait()
    (work / "servers.part").write_text(f"{server.url} http://127.0.0.1:{silent.getsockname()[1]}\n")
    (work / "servers.part").rename(work / "servers")
    server.process.wait()
finally:
    server.stop()
PYTHON
servers=$!
trap 'kill $servers 2>/dev/null || true; wait $servers 2>/dev/null || true; rm -rf "$work"' EXIT
until [ -f "$work/servers" ]; do kill -0 $servers; sleep 0.2; done
read -r mlflow silent <"$work/servers"

train_with() { # CASE THREADS RUN OPTIONS...
  (cd "$work/$1" && python3 "$root/bench/measure.py" "$work/process-$1-$2-$3.json" \
    "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" --valid-data-path "$valid" \
    --trained-model-path model --device cpu --epochs "$epochs" --batch-size 64 --learning-rate 0.05 --print-freq 1 \
    --threads "$2" "${options[@]}" "${@:4}")
  mv "$work/$1/model/training.json" "$work/training-$1-$2-$3.json"
  rm -r "$work/$1/model"
}
pipelines=(--kfp-executor-input "$(sed "s|OUT|$work/all/executor.json|" <<'JSON'
{"outputs": {"artifacts": {"metrics": {"artifacts": [
  {"name": "metrics", "uri": "s3://bucket/metrics", "type": {"schemaTitle": "system.Metrics"}}]}}, "outputFile": "OUT"}}
JSON
)")

"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null
train_case() { # CASE THREADS RUN
  case $1 in
    off) train_with off "$2" "$3" ;;
    all) MLFLOW_TRACKING_URI=$mlflow train_with all "$2" "$3" "${pipelines[@]}" ;;
    hangs) MLFLOW_TRACKING_URI=$silent train_with hangs "$2" "$3" "${pipelines[@]}" ;;
  esac
}
cases=(off all hangs)
for run in $(seq "$runs"); do
  for threads in 1 2; do
    echo "run $run of $runs, $threads threads" >&2
    for place in 0 1 2; do train_case "${cases[$(((run + place) % 3))]}" "$threads" "$run"; done # none is always first
  done
  MLFLOW_TRACKING_URI=$mlflow "$tell_again" "$work/all/logs" "$work/again" 2>/dev/null >"$work/again-all-$run.json"
  MLFLOW_TRACKING_URI=$silent "$tell_again" "$work/all/logs" "$work/again" 2>/dev/null >"$work/again-hangs-$run.json"
done
python3 - "$work" <<'PYTHON'
import json, pathlib, statistics, sys

folder = pathlib.Path(sys.argv[1])
CASES = {"off": "no sinks", "all": "all sinks", "hangs": "all, server hangs"}


def runs(case, threads):
    for path in sorted(folder.glob(f"training-{case}-{threads}-*.json")):
        epochs = json.loads(path.read_text())["epochs"]
        process = json.loads((folder / path.name.replace("training", "process")).read_text())
        images = sum(epoch["train_images_per_second"] * epoch["train_seconds"] for epoch in epochs)
        yield {"images/s": images / sum(epoch["train_seconds"] for epoch in epochs),
               "images a processor second": images / process["processor_seconds"],
               "peak memory, MB": process["peak_memory_bytes"] / 1e6, "whole job, s": process["total_seconds"]}


def show(title, name, values, compared):
    print(f"{title:38}{name:19}{statistics.median(values):9.2f}  ({min(values):.2f} to {max(values):.2f})  {compared}")


for threads in (1, 2):
    found = {case: list(runs(case, threads)) for case in CASES}
    for figure in found["off"][0]:
        without = statistics.median(run[figure] for run in found["off"])
        for case, name in CASES.items():
            values = [run[figure] for run in found[case]]
            middle = statistics.median(values)
            show(f"{threads} threads  {figure}", name, values, f"{middle - without:+8.2f}  {middle / without:.4f} x")
for case in ("all", "hangs"):
    told = [json.loads(path.read_text()) for path in sorted(folder.glob(f"again-{case}-*.json"))]
    jobs = [json.loads(path.read_text()) for path in sorted(folder.glob("process-all-2-*.json"))]
    show("told again: microseconds a step", CASES[case], [1e6 * run["step_seconds"] for run in told], "")
    show("told again: milliseconds an epoch", CASES[case], [1e3 * run["epoch_seconds"] for run in told], "")
    show("training held up, % of its time", CASES[case],
         [100 * run["held_up_seconds"] / run["run_seconds"] for run in told], "steps and ends of epochs")
    show("processor time, % of the job's", CASES[case],
         [100 * run["processor_seconds"] / job["processor_seconds"] for run, job in zip(told, jobs)],
         "all threads, start and end too")
PYTHON
