#!/usr/bin/env bash
# The mutation tests of all readers of strangers' bytes, long and with fresh draws, in the sanitizer build.
#
#   tests/nightly/fuzz_readers.sh [MUTATIONS [SEED]]    200000 a file form, a random seed
set -euo pipefail
cd "$(dirname "$0")/../.."
export KILN_MUTATIONS=${1:-200000} KILN_MUTATION_SEED=${2:-$RANDOM} ASAN_OPTIONS=detect_leaks=0
echo "fuzz_readers: $KILN_MUTATIONS mutations a file form, seed $KILN_MUTATION_SEED"
printf '%s\n' store image dataset |
  xargs -P 2 -I '{}' build/asan/kiln_{}_test --gtest_filter='*Mutation*' --gtest_brief=1
