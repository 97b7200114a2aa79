"""`kiln serve`: answers are those of `kiln score`, image by image, by every contract; limits, reload, end, and hostile clients."""
import base64
import concurrent.futures
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import time
import zlib

from browser import PROGRAM, STRANGE_HOST, Browser
from flow import KILN, FlowTest, kiln, main
from serving import Server, form

ONE_BY_ONE = ("--max-batch", 1)


def png(width, height, pixels=bytes(1 << 20)):
    """A PNG whose header promises that many pixels; unless they are given, its data are few."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b""))


class ServeTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.files = sorted(path for path in (cls.data / "val").rglob("*") if path.is_file())
        cls.photos = [path.read_bytes() for path in cls.files]
        cls.classes = sorted(path.name for path in (cls.data / "val").iterdir())

    def scores(self, *options):
        """The rows of `kiln score` for the photos, without the names of the files."""
        output = self.folder / "scores.jsonl"
        done = kiln("score", "--trained-model-path", self.trained_model, "--data-path", self.data / "val", "--output-path", output,
                    "--all-classes", "--batch-size", 1, "--device", "cpu", "--threads", 2, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [json.loads(line) for line in output.read_text().splitlines()]
        return [{name: value for name, value in row.items() if name not in ("path", "true_label")} for row in rows]

    def serve(self, *words, **settings):
        return Server(self, "--trained-model-path", self.trained_model, *words, **settings)

    def assert_rows(self, rows, expected, names=None):
        self.assertEqual([row.pop("path") for row in rows], names or [None] * len(rows))
        self.assertEqual(rows, expected)

    def test_answers_are_those_of_score(self):
        expected, server = self.scores(), self.serve(*ONE_BY_ONE)
        self.assertEqual(server.host, "127.0.0.1")
        answers = [server.json("POST", "/predict", photo) for photo in self.photos]
        self.assertEqual([status for status, _ in answers], [200] * len(self.photos))
        self.assert_rows([row for _, row in answers], expected)
        texts = [base64.b64encode(photo).decode() for photo in self.photos]
        self.assert_rows([server.json("POST", "/predict", {"image": "data:image/jpeg;base64," + texts[0]})[1]], expected[:1])
        self.assert_rows(server.json("POST", "/predict", {"images": texts})[1]["predictions"], expected)
        names = [path.name for path in self.files]
        body, kind = form(*zip(names, self.photos))
        self.assert_rows(server.json("POST", "/predict", body, Content_Type=kind)[1]["predictions"], expected, names)
        metrics = server.metrics()
        self.assertEqual(metrics["kiln_answers_total"], 3 * len(self.photos) + 1)
        self.assertEqual(metrics['kiln_batch_images_bucket{le="1"}'], metrics["kiln_batch_images_count"])
        self.assertEqual(metrics['kiln_requests_total{route="/predict",code="200"}'], len(self.photos) + 3)

    def test_batches_of_many_clients(self):
        expected, server = self.scores("--min-confidence", .5), self.serve("--min-confidence", .5, "--max-batch", 8)
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(lambda photo: server.json("POST", "/predict", photo), self.photos * 10))
        for (status, row), wanted in zip(answers, expected * 10):
            self.assertEqual((status, row["label"], row["guess"]), (200, wanted["label"], wanted["guess"]))
            for name in self.classes:
                self.assertAlmostEqual(row["probability_" + name], wanted["probability_" + name], places=5)
        metrics = server.metrics()
        self.assertEqual(metrics["kiln_unsure_answers_total"], 10 * sum(row["label"] is None for row in expected))
        self.assertEqual(metrics["kiln_answers_total"], 10 * len(self.photos))
        self.assertLess(metrics["kiln_batch_images_count"], metrics["kiln_answers_total"])
        self.assertTrue(0 <= metrics["kiln_validation_unsure_ratio"] <= 1)

    def test_sagemaker(self):
        shutil.copytree(self.trained_model, self.folder / "ml/model")
        expected = self.scores()
        server = Server(self, *ONE_BY_ONE, environment={"SAGEMAKER_BASE_DIR": str(self.folder / "ml"),
                                                        "SAGEMAKER_MAX_PAYLOAD_IN_MB": "6"})
        self.assertEqual(server.host, "0.0.0.0")
        self.assertEqual(server.status("GET", "/ping"), 200)
        parameters = server.json("GET", "/execution-parameters")[1]
        self.assertEqual((parameters["BatchStrategy"], parameters["MaxPayloadInMB"]), ("SINGLE_RECORD", 6))
        rows = [server.json("POST", "/invocations", photo, Content_Type="application/x-image")[1] for photo in self.photos]
        self.assert_rows(rows, expected)
        self.assertEqual(server.status("POST", "/invocations", bytes(7 << 20)), 413)

    def test_a_batch_transform_of_sagemaker(self):
        """One of at most 100 MB at a time, in which a bad image does not fail the job."""
        shutil.copytree(self.trained_model, self.folder / "ml/model")
        for payload, most in ((None, 25), ("6", 6), ("25", 25), ("100", 100), ("0", 100)):
            environment = {"SAGEMAKER_BASE_DIR": str(self.folder / "ml"), "SAGEMAKER_BATCH": "true"}
            if payload is not None:
                environment["SAGEMAKER_MAX_PAYLOAD_IN_MB"] = payload
            with self.subTest(payload=payload):
                server = Server(self, *ONE_BY_ONE, environment=environment)
                parameters = server.json("GET", "/execution-parameters")[1]
                self.assertEqual(parameters["MaxPayloadInMB"], most)
                self.assertTrue(1 <= parameters["MaxConcurrentTransforms"] <= min(8, 100 / most))
                status, row = server.json("POST", "/invocations", b"no image", Content_Type="application/x-image")
                self.assertEqual(status, 200)
                self.assertTrue(row["fault"])
                if payload == "0":
                    self.assertEqual(server.status("POST", "/invocations", self.photos[0] + bytes(30 << 20)), 200)
                self.assertEqual(server.json("POST", "/predict", b"no image", Content_Type="image/png")[0], 422)
                server.process.kill()

    def test_all_interfaces_are_those_of_ipv6_too(self):
        server = self.serve("--host", "0.0.0.0")
        self.assertEqual(server.status("GET", "/readyz"), 200)
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError:
            self.skipTest("this machine has no IPv6")
        with socket.create_connection(("::1", server.port), timeout=30) as connection:
            connection.sendall(b"GET /readyz HTTP/1.0\r\n\r\n")
            self.assertIn(b" 200 ", Server.rest(connection))

    def test_azure_ml_and_a_packed_model(self):
        (self.folder / "registered/1").mkdir(parents=True)
        other = self.folder / "other.csv"
        other.write_text(",label\n0,of\n1,another\n2,model\n")
        with tarfile.open(self.folder / "registered/1/model.tar.gz", "w:gz") as tar:
            for name in ("index_to_label.csv", "trained/old/index_to_label.csv", "trained/index_to_label.csv"):
                tar.add(other, name)  # not the model's, or an earlier entry of the name
            tar.add(self.trained_model, "trained")
        server = Server(self, *ONE_BY_ONE, environment={"AZUREML_MODEL_DIR": str(self.folder / "registered")})
        self.assertEqual([server.status("GET", path) for path in ("/healthz", "/readyz")], [200, 200])
        self.assert_rows([server.json("POST", "/score", photo)[1] for photo in self.photos], self.scores())

    def test_vertex_ai(self):
        shutil.copytree(self.trained_model, self.folder / "model")
        server = Server(self, *ONE_BY_ONE, cwd=self.folder, environment={
            "AIP_HTTP_PORT": "8080", "AIP_HEALTH_ROUTE": "/v1/health", "AIP_PREDICT_ROUTE": "/v1/endpoints/7:predict",
            "AIP_STORAGE_URI": "gs://bucket/model"})
        self.assertEqual(server.status("GET", "/v1/health"), 200)
        texts = [base64.b64encode(photo).decode() for photo in self.photos]
        for wrap in (lambda text: {"b64": text}, lambda text: {"image_bytes": {"b64": text}}, lambda text: {"content": text}):
            status, answer = server.json("POST", "/v1/endpoints/7:predict", {"instances": [wrap(text) for text in texts]})
            self.assertEqual(status, 200)
            self.assert_rows(answer["predictions"], self.scores())
        self.assertEqual(server.json("POST", "/v1/endpoints/7:predict", {"instances": [7]})[0], 400)

    def test_open_inference_protocol(self):
        """In JSON and in binary form, as tests/platforms/test_serving_clients.py does with the clients themselves."""
        server, expected = self.serve(*ONE_BY_ONE), self.scores()
        for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/kiln", "/v2/models/kiln/ready",
                     "/v2/models/kiln/versions/1/ready"):
            self.assertEqual(server.status("GET", path), 200, path)
        texts = [base64.b64encode(photo).decode() for photo in self.photos]
        request = {"id": "a", "inputs": [{"name": "image", "datatype": "BYTES", "shape": [len(texts)], "data": texts}]}
        status, answer = server.json("POST", "/v2/models/kiln/infer", request)
        self.assertEqual((status, answer["id"], answer["model_name"]), (200, "a", "kiln"))
        outputs = {output["name"]: output for output in answer["outputs"]}
        self.assertEqual(outputs["label"]["data"], [row["label"] for row in expected])
        self.assertEqual(outputs["probabilities"]["shape"], [len(texts), len(self.classes)])
        pixels = bytes(range(48)) * 64
        tensor = {"name": "image", "datatype": "UINT8", "shape": [1, 32, 32, 3]}
        plain = server.json("POST", "/v2/models/kiln/infer", {"inputs": [{**tensor, "data": list(pixels)}]})[1]
        head = json.dumps({"inputs": [{**tensor, "parameters": {"binary_data_size": len(pixels)}}],
                           "outputs": [{"name": "probabilities", "parameters": {"binary_data": True}}]}).encode()
        status, headers, body = server.ask("POST", "/v2/models/kiln/infer", head + pixels,
                                           Inference_Header_Content_Length=str(len(head)))
        binary = struct.unpack(f"<{len(self.classes)}f", body[int(headers["Inference-Header-Content-Length"]):])
        self.assertEqual((status, list(binary)),
                         (200, next(output["data"] for output in plain["outputs"] if output["name"] == "probabilities")))
        raw = server.json("POST", "/v2/models/kiln/infer", self.photos[0], Inference_Header_Content_Length="0")[1]
        self.assertEqual(raw["outputs"][1]["data"], [expected[0]["label"]])
        for spoiled in ({"inputs": []}, {"inputs": [{**tensor, "data": [256] * len(pixels)}]}, {"inputs": [{**tensor, "data": [1]}]},
                        {"inputs": [{**tensor, "shape": [1, -1, 32, 3], "data": [1]}]}, {**request, "outputs": [{"name": "x"}]}, [7]):
            self.assertEqual(server.json("POST", "/v2/models/kiln/infer", spoiled)[0], 400, spoiled)

    def test_what_is_refused(self):
        (self.folder / "key").write_text("open sesame\n")
        self.assert_refused(self.run_serve("--key-file", self.folder / "key"), 1, "--key-file")
        (self.folder / "key").write_text("sesame\n")
        server = self.serve("--key-file", self.folder / "key", "--max-body-mib", 1, "--max-megapixels", 1)
        key = {"Authorization": "Bearer sesame"}
        for path, method in (("/predict", "POST"), ("/metrics", "GET"), ("/v2/models/a/infer", "POST"), ("/explain", "POST")):
            self.assertEqual([server.status(method, path, self.photos[0], **headers) for headers in
                              ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "sesame"})], [401] * 3)
        self.assertEqual([server.status("GET", path) for path in ("/", "/healthz", "/readyz", "/ping")], [200] * 4)
        for body, status in ((self.photos[0], 200), (b"", 400), (b"text", 422), (png(1001, 1000), 422), (bytes(2 << 20), 413)):
            self.assertEqual(server.status("POST", "/predict", body, **key), status, body[:9])
        self.assertEqual(server.status("POST", "/predict", (bytes(1 << 16) for _ in range(20)), **key), 413)  # in chunks
        for body in ({}, {"image": 7}, {"image": "?"}, {"images": []}, [[]], "text", {"image": "A" * 7}):
            self.assertEqual(server.status("POST", "/predict", json.dumps(body), Content_Type="application/json", **key), 400, body)
        self.assertEqual(server.status("POST", "/predict", "--", Content_Type="multipart/form-data; boundary=a", **key), 400)
        self.assertEqual(server.status("GET", "/nothing", **key), 404)
        status, headers, _ = server.ask("GET", "/predict", **key)
        self.assertEqual((status, headers["Allow"]), (405, "POST"))
        status, headers, body = server.ask("HEAD", "/healthz")
        self.assertEqual((status, body, int(headers["Content-Length"]) > 0), (200, b"", True))

    def run_serve(self, *words, model=None, port=0):
        return kiln("serve", "--trained-model-path", model or self.trained_model, "--device", "cpu", "--port", port, *words)

    def test_a_start_that_fails(self):
        server = self.serve()
        self.assert_refused(self.run_serve(port=server.port), 1, "--port", str(server.port))
        self.assert_refused(self.run_serve(model=self.untrained), 1, "untrained")
        (self.folder / "text").write_text("no archive")
        self.assert_refused(self.run_serve(model=self.folder / "text"), 1, "text")
        self.assert_refused(kiln("serve", cwd=self.folder, environment={"AIP_STORAGE_URI": "gs://bucket/model"}), 1,
                            "AIP_STORAGE_URI", "gs://bucket/model", "image")
        self.assert_refused(self.run_serve("--min-confidence", .5, "--answer-at", .9), 2, "--answer-at")

    def lines(self, path, count, seconds=20):
        """The first `count` lines of an access log, once they are there."""
        for _ in range(seconds * 20):
            lines = path.read_text().splitlines() if path.exists() else []
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            time.sleep(.05)
        self.fail(f"{len(lines)} of {count} lines")

    def test_access_log(self):
        path = self.folder / "access.jsonl"
        path.write_text('{"id": "earlier"}\n')
        server = self.serve(*ONE_BY_ONE, "--access-log", path)
        answer = server.json("POST", "/predict", self.photos[0], X_Request_Id="a\"b")[1]
        body, kind = form(("a.jpg", self.photos[0]), ("b.jpg", self.photos[1]))
        _, head, _ = server.ask("POST", "/predict", body, Content_Type=kind)
        server.ask("POST", "/predict?photo=secret", b"none", X_Request_Id="x" * 100 + "y")
        server.ask("GET", "/no/such?photo=secret")
        server.raw(b"no HTTP\r\n\r\n")
        earlier, alone, several, bad, strange, broken = self.lines(path, 6)
        self.assertEqual(earlier, {"id": "earlier"})
        self.assertEqual(list(alone), ["time", "id", "route", "status", "queue_ms", "decode_ms", "forward_ms", "class", "confidence"])
        self.assertRegex(alone["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((alone["id"], alone["route"], alone["status"]), ('a"b', "/predict", 200))
        self.assertEqual((alone["class"], alone["confidence"]), (answer["label"], answer["confidence"]))
        for name in ("queue_ms", "decode_ms", "forward_ms"):
            self.assertTrue(0 < alone[name] < 60_000, alone)
        self.assertEqual((several["id"], several["class"], several["confidence"]), (head["X-Request-Id"], None, None))
        self.assertRegex(several["id"], "^[0-9a-f]{16}$")
        self.assertEqual((bad["id"], bad["status"], bad["class"]), ("x" * 64, 422, None))
        self.assertEqual((strange["route"], strange["status"]), ("none", 404))
        self.assertEqual((broken["route"], broken["status"]), ("none", 400))
        self.assertNotIn("secret", path.read_text())

    def test_access_log_of_unsure_answers_on_standard_output(self):
        server = self.serve(*ONE_BY_ONE, "--access-log", "-", "--min-confidence", 1)
        server.json("POST", "/predict", self.photos[0])
        _, output = server.end(signal.SIGTERM)
        (line,) = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        self.assertEqual((line["class"], line["status"]), (None, 200))
        self.assertIsInstance(line["confidence"], float)

    def test_an_access_log_that_nobody_reads_delays_nobody(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        server = self.serve(*ONE_BY_ONE, "--access-log", pipe)
        with server.connect() as connection:  # more lines than the pipe and the queue have room for
            count = 11_000
            ask = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
            said = b""
            for _ in range(count // 100):
                connection.sendall(ask * 100)
                while said.count(b"HTTP/1.1 200") < 100:
                    said += connection.recv(1 << 20)
                said = b""
        self.assertGreater(server.metrics()["kiln_access_log_dropped_total"], 0)
        self.assertEqual(server.json("POST", "/predict", self.photos[0])[0], 200)
        begin = time.monotonic()
        self.assertEqual(server.end(signal.SIGTERM)[0], 0)
        self.assertLess(time.monotonic() - begin, 20)

    def test_an_access_log_that_cannot_be_written(self):
        for place in (self.folder / "none/access.jsonl", self.folder):
            done = kiln("serve", "--trained-model-path", self.trained_model, "--port", 0, "--access-log", place)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("--access-log", done.stderr)
        server = self.serve(*ONE_BY_ONE, "--access-log", "/dev/full")
        self.assertEqual(server.json("POST", "/predict", self.photos[0])[0], 200)
        for _ in range(100):
            if server.metrics()["kiln_access_log_dropped_total"] > 0:
                break
            time.sleep(.05)
        else:
            self.fail("nothing was counted")
        self.assertEqual(server.end(signal.SIGTERM)[1].count("--access-log was lost"), 1)

    def test_which_model_answered(self):
        server = self.serve(*ONE_BY_ONE)
        version = kiln("--version").stdout.split()[1]
        health = server.json("GET", "/healthz")[1]
        self.assertEqual(health["version"], version)
        rows = []
        for photo in self.photos:
            _, head, body = server.ask("POST", "/predict", photo)
            self.assertEqual(head["X-Kiln-Model"], health["model"])
            rows.append(json.loads(body)["label"])
        metrics = server.metrics()
        self.assertEqual(metrics[f'kiln_model_info{{model="{health["model"]}",version="{version}"}}'], 1)
        self.assertEqual({name: metrics.get(f'kiln_class_answers_total{{class="{name}"}}', 0) for name in self.classes},
                         {name: rows.count(name) for name in self.classes})

    def test_openapi(self):
        key = self.folder / "key"
        key.write_text("word")
        server = self.serve("--key-file", key, environment={"AIP_PREDICT_ROUTE": "/ask"})
        status, description = server.json("GET", "/openapi.json")
        self.assertEqual((status, description["openapi"][:2]), (200, "3."))
        paths = description["paths"]
        self.assertLessEqual({"/predict", "/explain", "/healthz", "/metrics", "/ask", "/v2/models/{name}/infer",
                              "/v2/models/{name}/versions/{version}"}, set(paths))
        for path, methods in paths.items():
            for method, does in methods.items():
                names = re.findall(r"{(\w+)}", path)
                self.assertEqual([one["name"] for one in does.get("parameters", [])], names, path)
                self.assertEqual("requestBody" in does, method == "post", path)
                self.assertLessEqual({"200", "default"}, set(does["responses"]), path)
                asked = re.sub(r"{\w+}", "a", path)
                status = server.status(method.upper(), asked)
                self.assertNotIn(status, (404, 405), path)
                self.assertEqual(status == 401, "security" in does, path)

    def test_a_socket_in_a_folder(self):
        """For its owner alone; the server is gone, and the socket, once whoever holds its standard input is."""
        place = self.folder / "own/socket"
        server = subprocess.Popen([KILN, "serve", self.trained_model, "--unix-socket", place, "--device", "cpu", "--threads", "1"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.kill)
        lines = iter(server.stdout.readline, "")
        self.assertTrue(any(line.startswith("serving:") and str(place) in line for line in lines))
        self.assertEqual([path.stat().st_mode & 0o777 for path in (place.parent, place)], [0o700, 0o600])
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(place))
            client.sendall(b"POST /predict HTTP/1.1\r\nHost: kiln\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                           % (len(self.photos[0]), self.photos[0]))
            head, _, body = Server.rest(client).partition(b"\r\n\r\n")
        self.assertTrue(head.startswith(b"HTTP/1.1 200"), head)
        self.assertIn("label", json.loads(body))
        self.assert_refused(kiln("serve", self.trained_model, "--unix-socket", place), 1, "--unix-socket", str(place))
        server.stdin.close()
        self.assertEqual(server.wait(timeout=20), 0)
        self.assertFalse(place.exists())
        self.assert_refused(self.run_serve("--unix-socket", "/tmp/" + 103 * "x"), 2, "--unix-socket", "107")
        self.assert_refused(self.run_serve("--unix-socket", place, "--host", "localhost"), 2, "--unix-socket", "--host")

    def test_a_full_queue(self):
        server = self.serve("--max-queue", 1, "--max-batch", 1)
        body, kind = form(("a.png", self.photos[0]), ("b.png", self.photos[0]))
        self.assertEqual(server.status("POST", "/predict", body, Content_Type=kind), 413)
        slow = png(6000, 6000, bytes((3 * 6000 + 1) * 6000))  # arrives in a moment, and takes long to decode
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            answers = list(clients.map(lambda _: server.ask("POST", "/predict", slow), range(8)))
        busy = [headers["Retry-After"] for status, headers, _ in answers if status == 503]
        self.assertEqual({status for status, _, _ in answers}, {200, 503})
        self.assertEqual(busy, ["1"] * len(busy))
        self.assertEqual(server.status("POST", "/predict", self.photos[0]), 200)
        self.assertEqual(server.metrics()["kiln_queued_images"], 0)

    def test_reloads_without_a_lost_request(self):
        model = self.folder / "model"
        shutil.copytree(self.trained_model, model)
        server = Server(self, "--trained-model-path", model)
        renamed = (model / "index_to_label.csv").read_text().replace(self.classes[0], "renamed")
        found = set()
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            def ask(number):
                if number == 20:
                    (model / "index_to_label.csv").write_text(renamed)
                if number in (20, 50):
                    server.process.send_signal(signal.SIGHUP)
                status, row = server.json("POST", "/predict", self.photos[number % len(self.photos)])
                found.update(name for name in row if name.startswith("probability_"))
                return status
            self.assertEqual(set(clients.map(ask, range(100))), {200})
        self.wait_for(lambda: server.metrics().get('kiln_model_reloads_total{result="done"}'))
        self.assertLess({"probability_" + name for name in self.classes[1:]}, found)
        self.assertEqual("probability_renamed" in server.json("POST", "/predict", self.photos[0])[1], True)
        (model / "model").write_bytes(b"spoiled")
        server.process.send_signal(signal.SIGHUP)
        self.wait_for(lambda: server.metrics().get('kiln_model_reloads_total{result="failed"}'))
        self.assertEqual("probability_renamed" in server.json("POST", "/predict", self.photos[0])[1], True)

    def wait_for(self, what, seconds=30):
        end = time.monotonic() + seconds
        while not what():
            self.assertLess(time.monotonic(), end)
            time.sleep(.02)

    def test_ends_once_what_runs_is_answered(self):
        server = self.serve()
        with server.connect() as slow:
            photo = self.photos[0]
            slow.sendall(b"POST /predict HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(photo) + photo[:100])
            time.sleep(.2)
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(.01)
            server.process.send_signal(signal.SIGTERM)  # as `timeout` does: it repeats the first
            self.wait_for(lambda: server.status("GET", "/readyz") == 503)
            self.assertEqual(server.status("POST", "/predict", photo), 200)
            slow.sendall(photo[100:])
            said = server.rest(slow)
        self.assertEqual(said.split(b"\r\n")[0], b"HTTP/1.1 200 OK")
        self.assertEqual(server.process.wait(30), 0)
        self.assertLess(time.monotonic() - begin, 30)

    def test_takes_connections_for_a_moment_after_it_was_told_to_end(self):
        """A proxy still sends requests until it has seen that the server is not ready."""
        server = self.serve()
        server.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        self.assertEqual(server.status("POST", "/predict", self.photos[0]), 200)
        self.assertEqual(server.process.wait(30), 0)

    def test_ends_once_what_the_model_has_is_answered(self):
        """Also if it takes longer than new connections are taken, and nobody else says anything to the server."""
        server, count = self.serve(), 10
        body, kind = form(*[("a.png", png(3000, 3000, bytes((3 * 3000 + 1) * 3000)))] * count)
        with concurrent.futures.ThreadPoolExecutor(1) as client:
            answer = client.submit(server.json, "POST", "/predict", body, Content_Type=kind)
            self.wait_for(lambda: server.metrics()["kiln_queued_images"] > 0)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(.1)
            server.process.send_signal(signal.SIGSTOP)  # its clock goes on
            time.sleep(2)
            server.process.send_signal(signal.SIGCONT)
            status, found = answer.result()
        self.assertEqual((status, len(found["predictions"])), (200, count))
        self.assertEqual(server.process.wait(30), 0)

    def test_failed_answers_are_counted(self):
        server, memory = self.serve(), resource.RLIMIT_AS
        self.assertEqual(server.status("POST", "/predict", self.photos[0]), 200)
        before = resource.prlimit(server.process.pid, memory)
        resource.prlimit(server.process.pid, memory, (1 << 20, before[1]))
        self.assertEqual(server.status("POST", "/predict", png(6000, 6000, bytes((3 * 6000 + 1) * 6000))), 500)
        resource.prlimit(server.process.pid, memory, before)
        metrics = server.metrics()
        self.assertEqual(metrics['kiln_requests_total{route="/predict",code="500"}'], 1)
        self.assertEqual(metrics["kiln_request_duration_seconds_count"], 2)

    def test_hostile_clients(self):
        """Bounded in count and time; the server neither crashes nor hangs nor grows."""
        server = self.serve("--max-seconds", 2, "--max-connections", 1000, "--max-body-mib", 1)
        photo = self.photos[0]
        head = b"POST /predict HTTP/1.1\r\nHost: a\r\n"
        whole = head + b"Content-Length: %d\r\n\r\n" % len(photo) + photo
        one = {  # what the server says first to it, or nothing
            b"\r\n\r\n\0\1\2" * 50: b"400", b"GET / HTTP/9.9\r\n\r\n": b"400", b"GET /\r\n\r\n": b"400", head: b"",
            head + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello": b"400",
            head + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n": b"400",
            head + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n": b"400",
            head + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n": b"501",
            head + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n": b"501",
            head + b"Content-Length: -1\r\n\r\n": b"400", head + b"Content-Length: 99999999999999999999999\r\n\r\n": b"400",
            head + b"Content-Length: 9999999999\r\n\r\n": b"413", head + b"Host: b\r\nContent-Length: 0\r\n\r\n": b"400",
            head + b"X: " + b"y" * 20000 + b"\r\n\r\n": b"431", head + b" folded: a\r\n\r\n": b"400",
            head + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n": b"400",
            head + b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n": b"400",
            head + b"Content-Length: 5\r\n\r\nhel": b"", whole[:-7]: b"", whole: b"200",
            head + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello": b"100"}
        for data, status in one.items():
            said = server.raw(data)
            self.assertEqual(said.split(b" ")[1] if said else b"", status, data[:90])
        self.assertEqual(server.raw(whole * 20).count(b"HTTP/1.1 200 OK"), 20)  # pipelined
        bomb = png(13000, 13000)
        self.assertEqual(server.status("POST", "/predict", bomb), 422)
        before = self.resident(server)
        rng = random.Random(7)

        def bother(number):
            data = bytearray(rng.choice([whole, *one]))
            for _ in range(rng.randrange(4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            server.raw(bytes(data[:rng.randrange(1, len(data) + 1)]))
        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            list(clients.map(bother, range(int(os.environ.get("KILN_HOSTILE", "600")))))
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2048)), hard))
        idle = [server.connect() for _ in range(999)]  # and one in a hundred begins a request that never ends
        for connection in idle[::100]:
            connection.sendall(head)
        time.sleep(.3)
        crowd = [server.connect() for _ in range(20)]
        self.assertEqual({connection.recv(12) for connection in crowd[2:]}, {b"HTTP/1.1 503"})
        for connection in idle + crowd:
            self.assertLessEqual(len(server.rest(connection)), 1000)
            connection.close()
        self.wait_for(lambda: server.metrics()["kiln_connections"] == 1)
        self.assertEqual(server.json("POST", "/predict", photo)[0], 200)
        self.assertLess(self.resident(server) - before, 64 << 20)

    @staticmethod
    def resident(server):
        pages = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def test_page(self):
        server = self.serve()
        status, headers, body = server.ask("GET", "/")
        self.assertEqual((status, headers["Content-Type"].split(";")[0]), (200, "text/html"))
        self.assertLess(len(body), 40_000)
        self.assertLessEqual({f"<li>{name}</li>" for name in self.classes}, set(re.findall("<li>.*?</li>", body.decode())))
        (self.folder / "key").write_text("sesame")
        with_key = self.serve("--key-file", self.folder / "key")
        self.assertNotIn("<li>" + self.classes[0], with_key.ask("GET", "/")[2].decode())
        if PROGRAM is None:
            self.skipTest("no Chromium here: install chromium-headless-shell")
        expected = [row["label"] for row in self.scores()]
        with Browser() as browser:
            self.several_photos(browser, server, expected)
            self.what_programs_ask(browser, server, expected[0])
            self.a_camera_where_there_may_be_one(browser, server)
            self.on_a_phone_with_keys(browser)
            self.assertEqual(self.complaints(browser), [])
            self.a_key(browser, with_key, expected[0])
            self.assertEqual(self.complaints(browser), [])

    def complaints(self, browser):
        """Those that are not of an answer without a label."""
        return [event for event in browser.complaints() if "responded with a status of 4" not in json.dumps(event)]

    def open_page(self, browser, server, host="127.0.0.1"):
        browser.call("Page.navigate", url=f"http://{host}:{server.port}/")
        self.wait_for(lambda: browser.evaluate("location.host + document.readyState") == f"{host}:{server.port}complete")

    def give(self, browser, how, *files):
        """Photos, as names and bytes, by an event that brings files."""
        made = ", ".join(f"""new File([Uint8Array.from(atob("{base64.b64encode(data).decode()}"), c => c.charCodeAt(0))],
                             {json.dumps(name)})""" for name, data in files)
        browser.evaluate(f"""(() => {{
          const data = new DataTransfer();
          for (const file of [{made}]) data.items.add(file);
          document.getElementById("drop").dispatchEvent({how});
        }})()""")

    def answered(self, browser, count):
        """The texts of the articles: answer, name of the file, fault; once there are so many, all with an answer."""
        def read():
            return browser.evaluate("""[...document.querySelectorAll("article")].map(
              one => [...one.querySelectorAll("h2, p")].map(part => part.textContent))""")
        self.wait_for(lambda: [one[0].startswith("Waiting") for one in read()] == [False] * count)
        return read()

    def several_photos(self, browser, server, expected):
        self.open_page(browser, server)
        unread = b"<b>no picture"
        strange = "<img src=x onerror=document.title='taken'>.png"
        ppm = b"P6 32 32 255\n" + bytes(3 * 32 * 32)  # no browser shows it
        self.give(browser, 'new DragEvent("drop", {dataTransfer: data, bubbles: true})',
                  ("a.jpg", self.photos[0]), (strange, unread), ("b.ppm", ppm))
        rows = self.answered(browser, 3)
        self.assertEqual(rows[0][0].split(",")[0], expected[0])
        self.assertEqual(rows[1], ["No answer", strange, server.json("POST", "/predict", unread)[1]["fault"]])
        self.assertEqual([row[1] for row in rows], ["a.jpg", strange, "b.ppm"])
        shown = """[...document.querySelectorAll("article")].map(one => [...one.querySelectorAll("img")].filter(
          image => image.offsetWidth > 0 && image.alt === "The photo").map(image => image.naturalWidth))"""
        self.wait_for(lambda: [len(widths) for widths in browser.evaluate(shown)] == [1, 0, 0])
        self.assertEqual(browser.evaluate("[document.title, document.querySelectorAll('article b').length]"),
                         ["Classify photos – Kiln", 0])
        self.assertEqual(browser.evaluate("document.querySelectorAll('article')[0].querySelectorAll('li').length"), len(self.classes))
        bar = "getComputedStyle(document.querySelector('article li')).backgroundSize"
        self.assertRegex(browser.evaluate(bar), r"^[\d.]+% 100%$")
        self.give(browser, 'new ClipboardEvent("paste", {clipboardData: data, bubbles: true})', ("c.jpg", self.photos[1]))
        self.assertEqual(self.answered(browser, 4)[0][0].split(",")[0], expected[1])
        root = browser.call("DOM.getDocument")["root"]["nodeId"]
        field = browser.call("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
        browser.call("DOM.setFileInputFiles", nodeId=field, files=[str(path) for path in self.files[:2]])
        self.assertEqual([row[0].split(",")[0] for row in self.answered(browser, 6)[:2]], expected[:2])

    def what_programs_ask(self, browser, server, expected):
        (self.folder / "photo.jpg").write_bytes(self.photos[0])
        lines = browser.evaluate("['curl', 'python'].map(id => document.getElementById(id).textContent)")
        for words in (["sh", "-c", lines[0]], [sys.executable, "-c", lines[1]]):
            if words[0] == "sh" and not shutil.which("curl"):
                continue
            answer = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertIn(expected, answer)

    def a_camera_where_there_may_be_one(self, browser, server):
        offered = "['filming', 'no-camera'].map(id => document.getElementById(id).offsetHeight > 0)"
        self.open_page(browser, server, STRANGE_HOST)
        self.assertEqual(browser.evaluate(offered), [False, True])
        self.open_page(browser, server)
        self.assertEqual(browser.evaluate(offered), [True, False])
        browser.evaluate("document.getElementById('camera').click()")
        self.wait_for(lambda: browser.evaluate("document.getElementById('video').videoWidth > 0"))
        browser.evaluate("document.getElementById('shoot').click()")
        self.assertEqual(self.answered(browser, 1)[0][1:], ["camera.jpg", ""])
        browser.evaluate("document.getElementById('camera').click()")
        self.wait_for(lambda: browser.evaluate("document.getElementById('viewer').hidden"))

    def on_a_phone_with_keys(self, browser):
        """The answer stands above the picture, nothing is wider than the window, and the tabulator reaches everything."""
        colors = set()
        for scheme in ("light", "dark"):
            browser.show(390, scheme)
            self.assertEqual(browser.evaluate("document.documentElement.scrollWidth"), 390)
            colors.add(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        self.assertEqual(len(colors), 2)
        tops = browser.evaluate("['article h2', 'article img'].map(name => document.querySelector(name).getBoundingClientRect().top)")
        self.assertLess(*tops)
        browser.evaluate("document.activeElement.blur()")
        reached = []
        for _ in range(4):
            browser.key("Tab")
            reached.append(browser.evaluate("document.activeElement.id || document.activeElement.textContent"))
        self.assertEqual(reached, ["file", "camera", f"The {len(self.classes)} classes", "How to ask from a program"])

    def a_key(self, browser, server, expected):
        self.open_page(browser, server)
        self.give(browser, 'new DragEvent("drop", {dataTransfer: data, bubbles: true})', ("a.jpg", self.photos[0]))
        self.assertIn("key", self.answered(browser, 1)[0][2])
        browser.evaluate("""(() => {
          document.getElementById("key").value = "sesame";
          document.getElementById("key").dispatchEvent(new Event("change"));
        })()""")
        self.wait_for(lambda: self.answered(browser, 1)[0][0].split(",")[0] == expected)
        self.assertEqual(sorted(browser.evaluate("[...document.querySelectorAll('#classes li')].map(one => one.textContent)")),
                         self.classes)


if __name__ == "__main__":
    main()
