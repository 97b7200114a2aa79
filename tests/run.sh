#!/usr/bin/env bash
# The one command: install what is missing, build the release, and run every unit test and whole runs of each command, in a
# quarter of an hour where the compiler cache is warm. The rest (label `check`), sanitizers and lint are in tests/check.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

environment/install.sh

begin=$SECONDS
cmake --preset "${KILN_PRESET:-release}" >build-configure.log 2>&1 || { cat build-configure.log; exit 1; }
rm -f build-configure.log
cmake --build --preset release
echo "built in $((SECONDS - begin)) s"

tests/ctest.sh -LE 'check|kills'
