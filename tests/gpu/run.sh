#!/usr/bin/env bash
# Find out on a machine with an NVIDIA GPU whether kiln computes the right things there, how ranks behave, and how fast it is.
#
#   tests/gpu/run.sh [--device cpu] [--part first|ranks|fast|all] [--steps NAME,NAME] BUNDLE RESULTS
#
# BUNDLE is what tests/gpu/pack.sh made. Needs this repository, Python with torch 2.11.0 (CUDA 13.0) and torchvision, and no
# network, no ssh and no Open MPI; each part ends within 540 seconds, and --steps runs some of its steps alone. KILN_TORCH_ROOT
# and KILN_PARITY_PACKAGES name folders with torch/ and nvidia/, and with torchvision/, where Python finds them elsewhere.
# Writes the folder RESULTS: table.txt and logs.tar.gz, both anew after every step. Exit 1 when a step failed. --device cpu, or
# the stand-in device (fake/README.md), tries the steps with few small images and measures nothing.
set -uo pipefail

# Part, step (a function in PART.sh) and the seconds that it may take.
rows="
first  machine     20
first  unit_tests  60
first  losses      90
first  networks    90
first  predict     40
first  repeated    40
first  speed      200
ranks  pair       120
ranks  soak        60
ranks  two_ranks  100
ranks  killed      40
ranks  stopped     45
ranks  terminated  30
ranks  memory      35
ranks  faults      60
fast   kernels    120
fast   norms       25
fast   batches    130
fast   networks   150
fast   memcheck    40
fast   loader      50
"
part_seconds=540
slow_seconds=300  # that any step may take without a GPU, however busy the machine: only what hangs is ended

usage() { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "run.sh: $1" >&2; exit 1; }

device=cuda parts=all steps='' size=full
while [ $# -gt 2 ]; do
  case $1 in
    --device) device=$2 ;;
    --part) parts=$2 ;;
    --steps) steps=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ $# -eq 2 ] || usage
case $device in cpu | cuda) ;; *) usage ;; esac
case $parts in first | ranks | fast) ;; all) parts="first ranks fast" ;; *) usage ;; esac

if [ $device = cpu ] || [ -n "${KILN_STAND_IN_DRIVER_VERSION:-}" ]; then
  size=small part_seconds=3600 rows=$(awk -v s=$slow_seconds 'NF {print $1, $2, s}' <<<"$rows")
fi

wanted=
for step in ${steps//,/ }; do
  row=$(awk -v parts=" $parts " -v step="$step" '$2 == step && index(parts, " " $1 " ")' <<<"$rows")
  [ -n "$row" ] || fail "'$step' is no step of: $parts"
  wanted+=$row$'\n'
done
[ -z "$steps" ] || rows=$wanted

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$2" || exit 1
results=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xf "$1" -C "$work" || fail "$1 cannot be unpacked: tests/gpu/pack.sh makes it"
folder_of() { python3 -c "import os, $1; print(os.path.dirname(os.path.dirname($1.__file__)))"; }
: "${KILN_TORCH_ROOT:=$(folder_of torch)}"
: "${KILN_PARITY_PACKAGES:=$(folder_of torchvision)}"
[ -d "$KILN_TORCH_ROOT/torch/lib" ] || fail "no LibTorch in '$KILN_TORCH_ROOT': set KILN_TORCH_ROOT"
bundle=$work/kiln-gpu
PATH=$bundle:$bundle/mpi:$PATH
PYTHONPATH=$KILN_TORCH_ROOT:$KILN_PARITY_PACKAGES:$bundle/python
export KILN_TORCH_ROOT KILN_PARITY_PACKAGES PATH PYTHONPATH here device size work bundle
# Into the page cache, while the first steps run: a cold disk would make their limits.
cat "$KILN_TORCH_ROOT"/torch/lib/*.so "$KILN_TORCH_ROOT"/nvidia/*/lib/*.so* >/dev/null 2>&1 &

# A table row for the step; further rows for what it told beyond one line.
add_row() { # STEP RESULT SECONDS LOG
  sed -n 's/^RESULT //p' "$4" | {
    IFS= read -r line
    printf '%-24s %-5s %4s s  %s\n' "$1" "$2" "$3" "${line:-$(tail -1 "$4")}"
    while IFS= read -r line; do printf '%39s%s\n' "" "$line"; done
  } | tee -a "$table"
}

run_step() { # PART STEP SECONDS_ALLOWED
  local allowed=$3 left=$((part_begin + part_seconds - SECONDS)) begin=$SECONDS code result=ok
  logs=$work/logs/$1.$2
  mkdir -p "$logs"
  [ "$allowed" -le "$left" ] || allowed=$left
  if [ "$allowed" -lt 1 ]; then
    echo "RESULT no time was left in this part" >"$logs/step.log"
    code=124
  else
    logs=$logs timeout -k 10 "$allowed" bash "$here/$1.sh" "$2" >"$logs/step.log" 2>&1
    code=$?
  fi
  case $code in
    0) ;;
    77) result=SKIP ;;
    *) result=FAIL failures=$((failures + 1)) ;;
  esac
  case $code in
    124 | 137) echo "RESULT ended after $allowed s" >>"$logs/step.log" ;;
  esac
  echo "exit code $code after $((SECONDS - begin)) s" >>"$logs/exit.log"
  add_row "$1.$2" $result $((SECONDS - begin)) "$logs/step.log"
  cp "$table" "$work/logs/"
  tar -czf "$results/.logs" -C "$work" logs && mv "$results/.logs" "$results/logs.tar.gz"
}

failures=0 begun=0  # the first part began with this script: unpacking counts
table=$results/table.txt
: >"$table"
for part in $parts; do
  part_begin=$begun
  while read -r of step allowed; do
    [ "$of" != "$part" ] || run_step "$part" "$step" "$allowed"
  done <<<"$rows"
  echo "$part: $((SECONDS - part_begin)) s"
  begun=$SECONDS
done
echo
cat "$table"
echo "$failures steps failed; logs: $results/logs.tar.gz ($(($(stat -c %s "$results/logs.tar.gz") / 1000)) kB)"
[ "$failures" -eq 0 ]
