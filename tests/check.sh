#!/usr/bin/env bash
# What tests/run.sh does not do: the other tests, sanitizers, fuzzing, containers, lint. Wants the build of tests/run.sh.
#
#   tests/check.sh            what CI runs after tests/run.sh
#   tests/check.sh --nightly  adds what takes hours: the cuda image and the whole cpu image, hundreds of killed runs, long
#                             runs, the fuzz targets for 10 minutes each, more jobs and examples, clang-tidy for every unit
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --nightly ]; then export KILN_NIGHTLY=1; fi  # tests that are long by themselves

# What does not link LibTorch once more, with sanitizers: it reads strangers' bytes.
cmake --preset asan >/dev/null
cmake --build --preset asan
ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure --no-tests=error -j 2
tests/fuzz/run.sh "$([ "${1:-}" = --nightly ] && echo 600 || echo 2)"

# The threads of the loader and of checkpoints.
cmake --preset tsan >/dev/null
cmake --build --preset tsan
TSAN_OPTIONS=halt_on_error=1 build/tsan/kiln_loader_test --gtest_brief=1
TSAN_OPTIONS=halt_on_error=1 build/tsan/kiln_stream_test --gtest_brief=1
build/tsan/kiln_store_test --gtest_filter='CheckpointWriter*' --gtest_list_tests | grep '^  ' >/dev/null  # there are some
TSAN_OPTIONS=halt_on_error=1 build/tsan/kiln_store_test --gtest_brief=1 --gtest_filter='CheckpointWriter*'

# What tests/run.sh leaves out, and more kills than there, at other moments.
KILN_KILLS=$([ "${1:-}" = --nightly ] && echo 200 || echo 10) KILN_SEED=2 tests/ctest.sh -L 'check|kills'

if [ "${1:-}" = --nightly ]; then
  tests/ctest.sh -LE 'check|kills'
  tests/nightly/kill_runs.py --kills 300
  tests/nightly/soak.sh
  tests/nightly/million_rows.py
  tests/nightly/hundred_times.py
  .ci/lint --all
else
  .ci/lint
fi
