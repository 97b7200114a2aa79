# Shared by the steps of first.sh, ranks.sh and fast.sh. Each step is a function that run.sh calls in a process of
# its own: exit 0 is right, 77 a skip. `logs`, `work`, `bundle`, `here`, `device` and `size` come from
# run.sh.
set -euo pipefail
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT  # of a step that failed

# A line for the table.
tell() { echo "RESULT $*"; }
skip() { tell "$*"; exit 77; }
fail() { tell "$*"; exit 1; }
on_gpu() { [ "$device" = cuda ]; }
in_full() { [ "$size" = full ]; }  # on a real GPU
need_gpu() { on_gpu || skip "needs a GPU"; }
need_real_gpu() { in_full || skip "needs a real GPU"; }
# What a rehearsal without a GPU does less of than the row says.
shortened() { in_full || tell "shortened without a GPU: $*"; }
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

# PyTorch's own steps, a line of JSON each.
torch_steps() { # FILE OPTIONS...
  python3 "$here/torch_steps.py" --device "$device" "${@:2}" >>"$1"
}
tell_lines() { # FILE: of torch_steps.py
  python3 -c '
import json, sys
for row in map(json.loads, open(sys.argv[1])):
    print("RESULT", row.get("img_per_s", row.get("failure")), "img/s:", row["model"], "batch", row["batch"], row["precision"],
          row["layout"], "compiled" if row["compiled"] else "eager", round(row.get("peak_bytes", 0) / 1e9, 1), "GB")' "$1"
}

# Rates of one network: epochs on decoded images without augmentation, so that nothing but the step counts. In $rate_epochs epochs
# there are 50 batches, fewer than which cuDNN does not measure its algorithms for.
rates() { # NAME NETWORK IMAGES OPTIONS...
  train "$1" "$(untrained "$2")" "$3" --epochs "${rate_epochs:-2}" --cache decoded --augment none --print-freq 50 "${@:4}"
  judge "$1" tell "$logs/$1"
  rm -rf "$work/models/$1"
}
# Kiln's rate over PyTorch's.
beside() { # NAME FILE KEY=VALUE...
  judge "$1 / PyTorch" beside "$2" "$logs/$1" "${@:3}"
}

# The second program of the bundle, if there is one, in the place of kiln.
has_next() { [ -x "$bundle/kiln-next" ]; }
as_next() { # COMMAND...
  kiln() { kiln-next "$@"; }
  "$@"
  unset -f kiln
}
