"""The measurements of bench/serve.sh, and their table: serve_rates.py KILN WORK IMAGES RUNS. WORK has the model."""
import asyncio
import contextlib
import json
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

KILN, WORK, IMAGES, RUNS = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), int(sys.argv[4])
HERE = pathlib.Path(__file__).resolve().parent
BENCH = os.environ.get("KILN_BENCH", str(pathlib.Path(KILN).with_name("kiln_bench")))
THREADS = os.cpu_count()
CLIENTS, SECONDS, MOST_PHOTOS = 16, 10, 100
PHOTOS = sorted(path for path in IMAGES.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg", ".png"))[:MOST_PHOTOS]
HEAD = "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n"

# Photos in turn, from a random one on.
WRK = """
local files, bodies, next_body = {files}, {{}}, 0
function init(args)
  for i, path in ipairs(files) do
    local file = io.open(path, "rb"); bodies[i] = file:read("*a"); file:close()
  end
  next_body = math.random(#bodies)
end
function request()
  next_body = next_body % #bodies + 1
  return wrk.format("POST", "/predict", {{["Content-Type"] = "application/octet-stream"}}, bodies[next_body])
end
function done(summary, latency)
  local failures = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.stderr:write(string.format("%f %f %d\\n", summary.requests / summary.duration * 1e6, latency:percentile(50) / 1e6, failures))
end
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def server(name):
    """A server that answers: its port, and the seconds until the first answer."""
    port = free_port()
    command = {"kiln": [KILN, "serve", "--trained-model-path", WORK / "model", "--port", port, "--device", "cpu", "--threads", THREADS],
               "FastAPI": [sys.executable, HERE / "serve_fastapi.py", WORK / "model", port, THREADS]}[name]
    begin = time.perf_counter()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(urllib.request.Request(
                        f"http://127.0.0.1:{port}/predict", PHOTOS[0].read_bytes(),
                        {"Content-Type": "application/octet-stream"})).read()
                    break
                time.sleep(.01)
            else:
                sys.exit(f"serve_rates.py: {name} ended with {process.returncode}")
            yield port, time.perf_counter() - begin
        finally:
            process.terminate()
            process.wait(60)


def wrk(port, clients):
    """Requests a second and the median latency in seconds."""
    script = WORK / "wrk.lua"
    script.write_text(WRK.format(files="{" + ", ".join(json.dumps(str(path)) for path in PHOTOS) + "}"))
    done = subprocess.run(["wrk", "-t", "1", "-c", str(clients), "-d", f"{SECONDS}s", "--timeout", "60s", "-s", script, f"http://127.0.0.1:{port}"],
                          capture_output=True, text=True, check=True)
    rate, median, failures = done.stderr.split()[-3:]
    if int(failures):
        sys.exit(f"serve_rates.py: {failures} requests failed:\n{done.stdout}")
    return float(rate), float(median)


async def poisson(port, rate):
    """The 99th percentile of requests that arrive at random with this mean rate, each on a connection of its own."""
    bodies, latencies = [path.read_bytes() for path in PHOTOS], []
    rng = random.Random(1)

    async def ask(body, begin):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD.format(len(body)).encode() + body)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            sys.exit(f"serve_rates.py: {head.decode()}")
        await reader.readexactly(int(re.search(rb"(?i)content-length: (\d+)", head)[1]))
        latencies.append(time.perf_counter() - begin)
        writer.close()
    begin = time.perf_counter()
    at, tasks = begin, []
    while at < begin + 2 * SECONDS:
        at += rng.expovariate(rate)
        await asyncio.sleep(max(0, at - time.perf_counter()))
        tasks.append(asyncio.create_task(ask(rng.choice(bodies), at)))
    await asyncio.gather(*tasks)
    return statistics.quantiles(latencies, n=100)[98]


def score_rate():
    done = subprocess.run([KILN, "score", "--trained-model-path", WORK / "model", "--data-path", IMAGES, "--output-path",
                           WORK / "scores.csv", "--all-classes", "--device", "cpu", "--threads", str(THREADS)],
                          capture_output=True, text=True, check=True)
    return float(re.search(r"\(([\d.,]+) images/s\)", done.stdout + done.stderr)[1].replace(",", ""))


def bench(*words):
    return json.loads(subprocess.run([BENCH, *map(str, words)], capture_output=True, text=True, check=True).stdout)["images_per_second"]


def one_image():
    """Seconds to decode one image with one thread, and of the forward pass of one."""
    size = json.loads((WORK / "model/preprocessing.json").read_text())["input_size"][0]
    network = re.search(r"model_name: (\S+)", (WORK / "model/model_spec.yaml").read_text())[1]
    decode = bench("loader", "--data", IMAGES, "--size", size, "--augment", "none", "--batch-size", 32, "--threads", 1, "--passes", 1)
    forward = bench("step", "--inference", "--model-name", network, "--size", size, "--batch-size", 1, "--threads", THREADS,
                    "--device", "cpu")
    return 1 / decode + 1 / forward


def spread(values, form="{:.1f}"):
    return f"{form.format(statistics.median(values))} ({form.format(min(values))} to {form.format(max(values))})"


def main():
    found = {}

    def keep(**values):
        for name, value in values.items():
            found.setdefault(name, []).append(value)
    for run in range(RUNS):
        print(f"run {run + 1} of {RUNS}", file=sys.stderr)
        keep(score=score_rate(), image=one_image())
        for name in ("kiln", "FastAPI"):
            with server(name) as (port, start):
                wrk(port, CLIENTS)  # warms up
                rate, _ = wrk(port, CLIENTS)
                keep(**{f"{name} rate": rate, f"{name} one": wrk(port, 1)[1], f"{name} start": start,
                        f"{name} late": asyncio.run(poisson(port, rate / 2))})
    ratio = lambda one, other: spread([a / b for a, b in zip(found[one], found[other], strict=True)], "{:.2f}")  # noqa: E731
    milliseconds = lambda name: spread([1000 * value for value in found[name]])  # noqa: E731
    print(f"{len(PHOTOS)} photos, {THREADS} threads, {RUNS} runs; medians (and ranges)\n")
    print("| | kiln serve | FastAPI + torchvision | beside |\n|---|---|---|---|")
    print(f"| images/s, {CLIENTS} clients | {spread(found['kiln rate'])} | {spread(found['FastAPI rate'])}: kiln is "
          f"{ratio('kiln rate', 'FastAPI rate')} x this | kiln score: {spread(found['score'])}: kiln serve is {ratio('kiln rate', 'score')} x this |")
    print(f"| one client, median latency, ms | {milliseconds('kiln one')} | {milliseconds('FastAPI one')} | "
          f"decode and forward of one image: {milliseconds('image')} |")
    print(f"| half of that rate, Poisson arrivals, 99th percentile, ms | {milliseconds('kiln late')} | {milliseconds('FastAPI late')} | "
          f"kiln's is {ratio('kiln late', 'image')} x decode and forward |")
    print(f"| start to first answer, s | {spread(found['kiln start'], '{:.2f}')} | {spread(found['FastAPI start'], '{:.2f}')} | |")


if __name__ == "__main__":
    main()
