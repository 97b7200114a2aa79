"""Runs a trainer and keeps its last rate, its times and its peak memory: measure.py OUT COMMAND...

Understands a JSON line an epoch with "img_per_s", the component's `Epoch 1,train_ips 30.70,...`, and the last line of
`kiln score`.
"""
import json
import re
import resource
import subprocess
import sys
import time

begin = time.perf_counter()
first_epoch, rate = None, None
with subprocess.Popen(sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
    for line in process.stdout:
        found = re.search(r'"img_per_s": ([\d.]+)|Epoch \d+,train_ips ([\d.]+)|^Scored .* \(([\d.]+) images/s\)', line)
        if found:
            first_epoch = first_epoch or time.perf_counter() - begin
            rate = float(found[1] or found[2] or found[3])
seconds = time.perf_counter() - begin
if process.returncode != 0 or rate is None:
    sys.exit(f"measure.py: {' '.join(sys.argv[2:])} ended with {process.returncode} and told no rate")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump({"images_per_second": rate, "total_seconds": seconds, "first_epoch_seconds": first_epoch,
               "processor_seconds": used.ru_utime + used.ru_stime, "peak_memory_bytes": used.ru_maxrss * 1024}, out)
