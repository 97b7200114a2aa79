"""Buckets for tests: moto's S3 server and an emulator of Google's, in threads of the test. What they are asked is noted, and
`misbehave(method, key)` may answer in S3's place: (status, headers, body)."""
import hashlib
import os
import pathlib
import sys
import threading
import urllib.parse

PACKAGES = [pathlib.Path(os.environ.get(f"KILN_{name.upper()}_ROOT", pathlib.Path(__file__).parents[2] / ".deps" / name))
            for name in ("buckets", "mlflow")]  # the latter has Flask
sys.path += map(str, PACKAGES)
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "user", "AWS_SECRET_ACCESS_KEY": "geheim", "AWS_EC2_METADATA_DISABLED": "true"}


def refusal(status, code, message="Said by a test", **headers):
    """An error of S3."""
    return status, headers, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()


class S3Server:
    def __init__(self):
        import moto.server
        import werkzeug.serving
        from moto.s3.models import s3_backends
        self.requests, self.misbehave = [], lambda method, key: None  # (method, key)
        s3_backends.reset()
        backend = moto.server.DomainDispatcherApplication(moto.server.create_backend_app)

        def answer(environ, start_response):
            method, key = environ["REQUEST_METHOD"], environ["PATH_INFO"].encode("latin-1").decode().partition("/")[2]
            key = key.partition("/")[2]
            self.requests.append((method, key))
            reply = self.misbehave(method, key)
            if reply is None:
                return backend(environ, start_response)
            status, headers, body = reply
            start_response(f"{status} Said", [*headers.items(), ("Content-Length", str(len(body)))])
            return [] if method == "HEAD" else [body]

        class Quiet(werkzeug.serving.WSGIRequestHandler):
            def log(self, *_):
                pass
        self.http = werkzeug.serving.make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.environment = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.http.server_port}"}

    def bucket(self, name):
        from moto.s3.models import s3_backends
        backend = s3_backends["123456789012"]["aws"]
        if name not in backend.buckets:
            backend.create_bucket(name, "us-east-1")
        return backend

    def put(self, bucket, **objects):
        for key, content in objects.items():
            self.bucket(bucket).put_object(bucket, key, content)

    def put_folder(self, bucket, prefix, folder):
        self.put(bucket, **{f"{prefix}/{path.relative_to(folder)}": path.read_bytes()
                            for path in sorted(folder.rglob("*")) if path.is_file()})

    def remove(self, bucket, key):
        self.bucket(bucket).delete_object(bucket, key)

    def read(self):
        """The objects whose bytes were asked for since the last call."""
        keys = sorted(key for method, key in self.requests if method == "GET" and key)
        self.requests.clear()
        return keys

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class GoogleServer:
    def __init__(self, folder):
        from gcp_storage_emulator.server import create_server
        self.server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="photos", data_dir=str(folder))
        self.server.start()
        self.url = f"http://127.0.0.1:{self.server._api._httpd.server_address[1]}"  # noqa: SLF001
        self.environment = {"CLOUD_STORAGE_EMULATOR_ENDPOINT": self.url,
                            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "none")}

    def put(self, key, content):
        import urllib.request
        name = urllib.parse.quote(key, safe="")
        url = f"{self.url}/upload/storage/v1/b/photos/o?uploadType=media&name={name}"
        with urllib.request.urlopen(urllib.request.Request(url, content, {"Content-Type": "image/png"})) as answer:
            answer.read()

    def stop(self):
        self.server.stop()
