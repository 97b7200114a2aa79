"""A real MLflow server for tests, and a relay before it that misbehaves as a test wants."""
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request

PACKAGES = pathlib.Path(__file__).parents[2] / ".deps/mlflow"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class MlflowServer:
    """`mlflow server` on loopback, with a sqlite store and artifacts below `folder`."""

    def __init__(self, folder):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.artifacts, self.output = folder / "artifacts", folder / "server.txt"
        environment = {**os.environ, "PYTHONPATH": str(PACKAGES), "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling is most of a first start
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1],
                 "--backend-store-uri", f"sqlite:///{folder}/store.sqlite", "--serve-artifacts",
                 "--artifacts-destination", self.artifacts, "--workers", "1"],
                stdout=output, stderr=subprocess.STDOUT, env=environment, cwd=folder, start_new_session=True)

    def wait(self, seconds=240):
        last = time.monotonic() + seconds
        while True:
            try:
                return urllib.request.urlopen(self.url + "/health", timeout=5).status
            except OSError as failure:
                if self.process.poll() is not None or time.monotonic() > last:
                    raise AssertionError(f"mlflow server: {failure}\n{self.output.read_text()}") from None
                time.sleep(0.2)

    def stop(self):
        os.killpg(self.process.pid, 9)
        self.process.wait()

    def ask(self, path, **body):
        """POST with a body, else GET."""
        request = urllib.request.Request(f"{self.url}/api/2.0/mlflow/{path}", json.dumps(body).encode() if body else None,
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=60))

    def runs(self, experiment):
        """Of the experiment with this name."""
        number = self.ask(f"experiments/get-by-name?experiment_name={experiment}")["experiment"]["experiment_id"]
        return self.ask("runs/search", experiment_ids=[number]).get("runs", [])

    def history(self, run, metric):
        """(step, value) of one metric."""
        name = urllib.request.quote(metric)
        found = self.ask(f"metrics/get-history?run_id={run['info']['run_id']}&metric_key={name}")
        return [(int(point["step"]), point["value"]) for point in found.get("metrics", [])]


BREAK, HANG = "break", "hang"


class Relay:
    """Passes requests on to `server`, or answers in its place where `misbehave` says so: that gets method, path and body of
    a request and gives None, BREAK, HANG, or (status, headers, body)."""

    def __init__(self, server, misbehave=lambda method, path, body: None):
        self.requests = []  # (method, path, headers, body)
        self.released = threading.Event()
        relay, target = self, server.url.split("//")[1]

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                relay.requests.append((self.command, self.path, dict(self.headers), body))
                reply = misbehave(self.command, self.path, body)
                self.close_connection = True
                if reply == HANG:
                    relay.released.wait()
                if reply in (BREAK, HANG):
                    return
                status, headers, answer = reply or self.passed_on(body)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": len(answer), "Connection": "close"}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(answer)

            def passed_on(self, body):
                connection = http.client.HTTPConnection(target, timeout=60)
                headers = {name: value for name, value in self.headers.items() if name not in ("Host", "Expect")}
                connection.request(self.command, self.path, body, {**headers, "Connection": "close"})
                answer = connection.getresponse()
                return answer.status, {"Content-Type": answer.headers["Content-Type"]}, answer.read()

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.released.set()
        self.http.shutdown()
        self.http.server_close()

    def count(self, end):
        """Requests whose path ends so."""
        return sum(path.endswith(end) for _, path, _, _ in self.requests)
