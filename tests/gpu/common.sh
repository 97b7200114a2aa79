# Shared by the steps of right.sh, speed.sh, networks.sh and ranks.sh. Each step is a function that run.sh calls in a process of
# its own: exit 0 is right, 77 a skip. `logs`, `work`, `bundle`, `here` and `device` come from run.sh.
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT  # of a step that failed

# A line for the table.
tell() { echo "RESULT $*"; }
skip() { tell "$*"; exit 77; }
fail() { tell "$*"; exit 1; }
on_gpu() { [ "$device" = cuda ]; }
need_gpu() { on_gpu || skip "needs a GPU"; }
# What the dry run on a CPU does less of than the row says.
shortened() { on_gpu || tell "shortened on a CPU: $*"; }
the_rest_needs_gpu() { on_gpu || { tell "the rest needs a GPU"; exit 0; }; }
need_tool() { command -v "$1" >/dev/null || skip "$1 is not on this machine"; }

# Runs judge.py, whose line goes into the table after NAME; its verdict is that of the step.
judge() { # NAME JUDGE.PY'S ARGUMENTS
  local line code=0
  line=$(python3 "$here/judge.py" "${@:2}") || code=$?
  tell "$1: $line"
  return $code
}

# Gives every file below FOLDER as many names.
multiply() { # FOLDER TIMES
  python3 - "$@" <<'PYTHON'
import os, pathlib, sys
for file in [path for path in pathlib.Path(sys.argv[1]).rglob("*") if path.is_file()]:
    for copy in range(2, int(sys.argv[2]) + 1):
        os.link(file, file.with_name(f"copy{copy}-{file.name}"))
PYTHON
}

# A folder of demo data: DRAWN images, each of them COPIES times. Made once.
images() { # SIZE DRAWN COPIES
  local folder=$work/images-$1-$2-$3
  if [ ! -d "$folder" ]; then
    kiln demo-data "$folder" --size "$1" --images "$2" >&2
    multiply "$folder" "$3"
  fi
  echo "$folder"
}

untrained() { # NETWORK OPTIONS... -> its folder
  local folder
  folder=$work/untrained-$(echo "$*" | tr ' ' _)
  [ -d "$folder" ] || kiln init-model "$1" --untrained-model-path "$folder" "${@:2}" >&2
  echo "$folder"
}

# The arguments of a run that logs to $logs/NAME; --device and whatever else may follow.
train_words() { # NAME UNTRAINED IMAGES
  words=(train --untrained-model-path "$2" --train-data-path "$3/train" --valid-data-path "$3/val"
    --trained-model-path "$work/models/$1" --log-path "$logs/$1" --patience 1000)
}
train() { # NAME UNTRAINED IMAGES OPTIONS...
  local words
  train_words "$1" "$2" "$3"
  kiln "${words[@]}" --device "$device" "${@:4}"
}

# Runs a command and tells how long it and the processors took.
timed() { # NAME COMMAND...
  local TIMEFORMAT='%R s, processors %U + %S s'
  { time "${@:2}" 2>&3; } 3>&2 2>"$logs/time.txt"
  tell "$1: $(cat "$logs/time.txt")"
}

expect_exit() { # CODE NAME COMMAND...
  local code=0
  "${@:3}" || code=$?
  [ "$code" = "$1" ] || fail "$2: exit code $code instead of $1"
}

wait_for() { # TEXT FILE: until the file has it, for a minute

  for _ in $(seq 600); do
    grep -q -- "$1" "$2" 2>/dev/null && return
    sleep 0.1
  done
  fail "'$1' did not appear in $2"
}
