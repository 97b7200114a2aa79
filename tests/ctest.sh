#!/usr/bin/env bash
# Runs the tests of build/release that the arguments choose (those of ctest), shows the slowest, and repeats at the end what was
# skipped and what failed. For tests/run.sh and tests/check.sh.
set -euo pipefail
cd "$(dirname "$0")/.."

# The tests write models of 90 MB, durably: into memory where there is enough of it. nightly.kill_runs stays on the disk.
if [ -w /dev/shm ] && [ "$(df --output=avail -k /dev/shm | tail -1)" -gt $((4 << 20)) ]; then
  TMPDIR=$(mktemp -d /dev/shm/kiln.XXXX)
  chmod 755 "$TMPDIR"  # some tests run as another user
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
fi

# One test more than there are cores, as many of them wait for ranks, servers and deadlines. They share the cores, so their
# threads sleep instead of spinning while they wait: a quarter less time.
begin=$SECONDS
status=0
OMP_WAIT_POLICY=passive ctest --test-dir build/release --output-on-failure --no-tests=error -j $(($(nproc) + 1)) \
  --test-output-size-passed 1000000 --output-junit "$PWD/build/release/tests.xml" "$@" || status=$?
echo "tested in $((SECONDS - begin)) s; the slowest tests:"
python3 - build/release/tests.xml <<'PYTHON'
import sys
import xml.etree.ElementTree as tree
cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
for case in sorted(cases, key=lambda case: -float(case.get("time")))[:20]:
    print(f"{float(case.get('time')):8.1f} s  {case.get('name')}")
# What CTest counts as passed, and what is lost above, once more at the end.
for case in cases:
    lines = case.findtext("system-out", "").splitlines()
    skipped = {line.split("]")[1].split()[0] for line in lines if line.startswith("[  SKIPPED ]") and "." in line}
    skipped |= {line[8:] for line in lines if line.startswith("SKIPPED ")}  # of Python's
    for name in sorted(skipped):
        print(f"SKIPPED {case.get('name')} {name}")
    for line in lines:
        if line.startswith("EXPECTED FAILURE "):
            print(f"EXPECTED FAILURE {case.get('name')} {line[17:]}")
    if case.get("status") == "fail":
        told = [line for line in lines if not line.startswith(("[ RUN ", "[       OK", "[-----", "ok "))]
        print(f"\nFAILED {case.get('name')}, its last lines:\n" + "\n".join(told[-60:]))
PYTHON
exit $status
