#!/usr/bin/env bash
# Fuzzes the readers of bytes from outside, in the build of `cmake --preset asan`.
#
#   tests/fuzz/run.sh SECONDS [TARGET...]    each target for SECONDS; without names all of them
#
# Prints executions and peak memory of each target. Exit 1 if one crashes, leaks, hangs or takes more memory than its row in
# CMakeLists.txt allows; the input that did it is kept under build/asan/fuzz/TARGET/. FUZZ_JOBS targets run at a time.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: tests/fuzz/run.sh SECONDS [TARGET...]}
shift
build=build/asan
mapfile -t rows < <(if [ $# = 0 ]; then cat $build/fuzz_targets.txt; fi
                    for name; do grep "^$name " $build/fuzz_targets.txt || echo "$name"; done)

# What targets write, and their corpora: in memory where that is possible.
scratch=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")")
trap 'rm -rf "$scratch"' EXIT

fuzz() {  # NAME MAX_BYTES MALLOC_MB RSS_MB
  local kept=$build/fuzz/$1 log=$scratch/$1.log result=ok
  mkdir -p "$kept" "$scratch/$1/corpus" "$scratch/$1/tmp"
  TMPDIR=$scratch/$1/tmp UBSAN_OPTIONS=print_stacktrace=1 \
    "$build/fuzz_$1" -max_len="$2" -malloc_limit_mb="$3" -rss_limit_mb="$4" -timeout=25 -max_total_time="$seconds" \
    -print_final_stats=1 -artifact_prefix="$kept/" "$scratch/$1/corpus" "tests/fuzz/seeds/$1" >"$log" 2>&1 || result=FAILED
  stat() { sed -n "s/^stat::$1: *//p" "$log"; }
  printf '%-20s %12s %8s MB  %s\n' "$1" "$(stat number_of_executed_units)" "$(stat peak_rss_mb)" "$result"
  [ $result = ok ] && return
  mv "$log" "$kept/log"
  grep -m 1 -E 'ERROR: |runtime error: |No such file' "$kept/log" || tail -n 3 "$kept/log"
  sed -n 's/.*Test unit written to/    input:/p' "$kept/log"
  return 1
}
export -f fuzz
export seconds build scratch

printf '%-20s %12s %11s  %s\n' target executions memory result
printf '%s\n' "${rows[@]}" |
  xargs -P "${FUZZ_JOBS:-$(nproc)}" -L 1 bash -c 'fuzz "$@"' fuzz
