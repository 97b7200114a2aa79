"""Runs a trainer and keeps its JSON lines, its wall time and its peak memory: measure.py OUT COMMAND..."""
import json
import resource
import subprocess
import sys
import time

begin = time.perf_counter()
lines = subprocess.run(sys.argv[2:], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
seconds = time.perf_counter() - begin
epochs = [record for record in map(json.loads, lines) if "epoch" in record]
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
with open(sys.argv[1], "w", encoding="utf-8") as out:
    json.dump({"images_per_second": epochs[-1]["img_per_s"], "total_seconds": seconds, "peak_memory_bytes": peak}, out)
