#!/usr/bin/env bash
# Find out on a machine with an NVIDIA GPU whether kiln computes the right things there, how fast, and how ranks behave.
#
#   tests/gpu/run.sh [--device cpu] [--part right|speed|networks|ranks|all] BUNDLE RESULTS
#
# BUNDLE is what tests/gpu/pack.sh made. Needs this repository, Python with torch 2.11.0 (CUDA 13.0) and torchvision, and no
# network; each part ends within ten minutes. KILN_TORCH_ROOT and KILN_PARITY_PACKAGES name folders with torch/ and nvidia/,
# and with torchvision/, where Python finds them elsewhere. Writes the folder RESULTS: table.txt, which is printed at the
# end, and logs.tar.gz. Exit 1 when a step failed. --device cpu tries the steps with few small images.
set -uo pipefail

# Part, step (a function in PART.sh) and the seconds that it may take.
rows="
right     machine         20
right     driver_threads  20
right     unit_tests      60
right     memcheck        60
right     first_run       60
right     precisions      90
right     networks_fp32  100
right     networks_tf32   60
right     repeats         60
right     faults          80
speed     torch          150
speed     kiln           200
speed     print_freq      50
speed     loader          60
speed     stripped        60
speed     accuracy       100
networks  torch          240
networks  kiln           300
networks  recomputed      50
ranks     pair           150
ranks     soak           130
ranks     two_ranks      120
ranks     collective      60
ranks     killed          60
ranks     stopped         60
ranks     terminated      40
ranks     memory          40
"
part_seconds=590
cpu_seconds=300  # that any step may take on a CPU, however busy: only what hangs is ended

usage() { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
fail() { echo "run.sh: $1" >&2; exit 1; }

device=cuda parts=all
while [ $# -gt 2 ]; do
  case $1 in
    --device) device=$2 ;;
    --part) parts=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ $# -eq 2 ] || usage
case $device in cpu | cuda) ;; *) usage ;; esac
case $parts in right | speed | networks | ranks) ;; all) parts="right speed networks ranks" ;; *) usage ;; esac

[ $device = cuda ] || part_seconds=3600 rows=$(awk -v s=$cpu_seconds 'NF {print $1, $2, s}' <<<"$rows")

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
export KILN_TORCH_ROOT KILN_PARITY_PACKAGES PATH PYTHONPATH here device work bundle

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
}

failures=0
table=$results/table.txt
: >"$table"
for part in $parts; do
  part_begin=$SECONDS
  while read -r of step allowed; do
    [ "$of" != "$part" ] || run_step "$part" "$step" "$allowed"
  done <<<"$rows"
  echo "$part: $((SECONDS - part_begin)) s"
done
echo
cat "$table"
cp "$table" "$work/logs/"
tar -czf "$results/logs.tar.gz" -C "$work" logs
echo "$failures steps failed; logs: $results/logs.tar.gz ($(($(stat -c %s "$results/logs.tar.gz") / 1000)) kB)"
[ "$failures" -eq 0 ]
