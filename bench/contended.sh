#!/usr/bin/env bash
# Training on processors that are not its own: images/s when nothing else runs, beside one busy process on every processor, and
# under a quota of 1.5 processors, as shares of what is fair: all, half, and 1.5 of the processors that there are.
#
#   bench/contended.sh KILN TRAIN_DATA VALID_DATA [RUNS [EPOCHS [OPTIONS OF TRAIN...]]]
#
# Also measured: kiln with libgomp's own spinning (300000), whose undisturbed rate is the measure of all shares of kiln; with
# each count of SPIN ("100 1000 10000"), which draws the curve; and PEER, the command of another trainer that bench/measure.py
# understands, against its own undisturbed rate. All take turns in every run; the last epoch counts. The quota needs a control
# group that may be made here, or systemd-run; without one it is skipped. Leave the machine alone meanwhile.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kiln=$1 train=$2 valid=$3 runs=${4:-5} epochs=${5:-2}
options=("${@:6}")
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
cores=$(nproc)
busy=()
group=
clean() {
  [ ${#busy[@]} -eq 0 ] || kill "${busy[@]}" 2>/dev/null || true
  [ -z "$group" ] || rmdir "$group" || true
  rm -rf "$work"
}
trap clean EXIT
unset OMP_WAIT_POLICY GOMP_SPINCOUNT
"$kiln" init-model resnet18 --untrained-model-path "$work/untrained" >/dev/null

train_with() { # OUT SPIN: default, or a number
  local spin=()
  [ "$2" = default ] || spin=(env "GOMP_SPINCOUNT=$2")
  "${limited[@]}" "${spin[@]}" "$kiln" train --untrained-model-path "$work/untrained" --train-data-path "$train" \
    --valid-data-path "$valid" --trained-model-path "$work/model" --log-path "$work/logs" --device cpu --epochs "$epochs" \
    --patience "$epochs" --batch-size 64 --learning-rate 0.05 --print-freq 1000000 "${options[@]}" >/dev/null
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["epochs"][-1]["train_images_per_second"])' \
    "$work/model/training.json" >"$1"
  rm -r "$work/model"
}
train_peer() { # OUT
  local command
  read -ra command <<<"$PEER"
  "${limited[@]}" python3 "$root/bench/measure.py" "$1.json" "${command[@]}"
  python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["images_per_second"])' "$1.json" >"$1"
  rm "$1.json"
}
train_all() { # CONDITION RUN
  for spin in default 300000 ${SPIN:-}; do
    train_with "$work/$1.kiln-$spin.$2" "$spin"
  done
  [ -z "${PEER:-}" ] || train_peer "$work/$1.peer.$2"
}

# What runs a command under the quota; empty where there is no way.
find_quota() {
  local v2=/sys/fs/cgroup v1=/sys/fs/cgroup/cpu
  if [ -e $v2/cgroup.controllers ] && grep -qw cpu $v2/cgroup.subtree_control && mkdir "$v2/kiln-$$" 2>/dev/null; then
    group=$v2/kiln-$$
    echo "150000 100000" >"$group/cpu.max"
  elif [ -e $v1/cpu.cfs_quota_us ] && mkdir "$v1/kiln-$$" 2>/dev/null; then
    group=$v1/kiln-$$
    echo 100000 >"$group/cpu.cfs_period_us"
    echo 150000 >"$group/cpu.cfs_quota_us"
  elif systemd-run --quiet --scope -p CPUQuota=150% true 2>/dev/null; then
    quota=(systemd-run --quiet --scope -p CPUQuota=150%)
    return
  else
    return
  fi
  # shellcheck disable=SC2016  # expanded there
  quota=(bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group")
}
quota=()
if [ "$cores" -gt 1 ]; then find_quota; fi
[ ${#quota[@]} -gt 0 ] || echo "SKIPPED: the quota of 1.5 processors, which cannot be set here" >&2

for run in $(seq "$runs"); do
  echo "run $run of $runs" >&2
  limited=()
  train_all quiet "$run"
  for _ in $(seq "$cores"); do
    (while :; do :; done) &
    busy+=($!)
  done
  train_all busy "$run"
  kill "${busy[@]}"
  wait "${busy[@]}" 2>/dev/null || true
  busy=()
  [ ${#quota[@]} -gt 0 ] || continue
  limited=("${quota[@]}")
  train_all quota "$run"
done
python3 - "$work" "$cores" <<'PYTHON'
import collections, pathlib, statistics, sys

rates = collections.defaultdict(dict)  # trainer -> (condition, run) -> images/s
for path in pathlib.Path(sys.argv[1]).glob("*.*.*"):
    condition, trainer, run = path.name.split(".")
    rates[trainer][condition, int(run)] = float(path.read_text())
fair = {"quiet": 1, "busy": 1 / 2, "quota": 1.5 / int(sys.argv[2])}


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


print(f"{'':14}{'':8}{'images/s':28}of the fair share")
for trainer, found in sorted(rates.items(), key=lambda item: (item[0] == "peer", len(item[0]), item[0])):
    reference = rates["peer" if trainer == "peer" else "kiln-300000"]
    for condition, part in fair.items():
        runs = sorted(run for of, run in found if of == condition)
        if not runs:
            continue
        shares = [found[condition, run] / (part * reference["quiet", run]) for run in runs]
        print(f"{trainer:14}{condition:8}{spread([found[condition, run] for run in runs], '.0f'):28}{spread(shares, '.2f')}")
for condition in fair if "peer" in rates else ():
    runs = [run for of, run in rates["peer"] if of == condition]
    if runs:
        ratios = [rates["kiln-default"][condition, run] / rates["peer"][condition, run] for run in runs]
        print(f"{condition}: kiln is {spread(ratios, '.2f')} x the peer")
PYTHON
