#!/usr/bin/env bash
# The one command: install what is missing, build, run every test.
#
#   tests/run.sh            what CI runs
#   tests/run.sh --nightly  adds the long tests: the cuda image and the whole cpu image, hundreds of killed runs, readers against
#                           200,000 damaged files of each format, more jobs and examples, clang-tidy over everything
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --nightly ]; then export KILN_NIGHTLY=1; fi  # tests that are long by themselves

environment/install.sh

begin=$SECONDS
cmake --preset release >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset release
echo "built in $((SECONDS - begin)) s"

# The rooms without LibTorch once more, with sanitizers: they parse untrusted bytes.
cmake --preset asan >/dev/null
cmake --build --preset asan
ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build/asan --output-on-failure --no-tests=error -j 2

# The loader's threads.
cmake --preset tsan >/dev/null
cmake --build --preset tsan
TSAN_OPTIONS=halt_on_error=1 build/tsan/kiln_loader_test --gtest_brief=1

# Two jobs share the cores, so their threads had better sleep than spin while they wait (a quarter less time).
OMP_WAIT_POLICY=passive ctest --test-dir build/release --output-on-failure --no-tests=error -j 2

if [ "${1:-}" = --nightly ]; then
  tests/nightly/kill_runs.py --kills 300
  tests/nightly/fuzz_readers.sh
  .ci/lint --all
fi
