"""An HTTPS server, or one of plain HTTP, that serves one file well or in every bad way; and a proxy. Standard library and the
program openssl, which makes the certificates."""
import http.server
import select
import socket
import ssl
import subprocess
import threading


def make_authority(folder):
    """An authority in ca.pem, a certificate by it for localhost and the hosts of torchvision's and timm's files in
    server.pem, and one by itself in self.pem. Each with key."""
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=folder)
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    names = ["-addext", "subjectAltName=DNS:localhost,DNS:download.pytorch.org,DNS:huggingface.co"]
    openssl("req", "-x509", *key, "-subj", "/CN=Kiln test authority", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", "-x509", *key, *names, "-subj", "/CN=localhost", "-keyout", "self.key", "-out", "self.crt")
    openssl("req", "-x509", *key, *names, "-subj", "/CN=localhost", "-addext", "basicConstraints=critical,CA:FALSE",
            "-CA", "ca.pem", "-CAkey", "ca.key", "-keyout", "server.key", "-out", "server.crt")
    for name in ("server", "self"):
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


class FileServer:
    """Serves `content` under every path. `misbehave(handler)` may answer a request in its place: it returns True then.
    Requests and the bytes of content that were sent are counted."""

    def __init__(self, content, certificate=None, misbehave=lambda handler: False):
        self.content, self.misbehave = content, misbehave
        self.requests, self.bytes_sent = [], 0  # (path, headers)
        self.released = threading.Event()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server.requests.append((self.path, dict(self.headers)))
                self.close_connection = True
                if not server.misbehave(self):
                    self.answer()

            def answer(self, stop_at=None, **headers):
                """The file; only its bytes before `stop_at` come."""
                self.send_response(200)
                for name, value in {"Content-Length": len(server.content), "Connection": "close", **headers}.items():
                    if value is not None:
                        self.send_header(name, str(value))
                self.end_headers()
                body = server.content[:stop_at]
                server.bytes_sent += len(body)
                try:
                    self.wfile.write(body)
                    self.wfile.flush()
                except OSError:
                    pass

            def say(self, status, **headers):
                self.send_response(status)
                for name, value in {"Content-Length": 0, "Connection": "close", **headers}.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.handle_error = lambda *_: None  # clients that refuse the certificate, or are killed
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            # In the request's own thread: a handshake that fails must not stop the server.
            self.http.get_request = lambda: self.wrapped(context)
        self.url = f"{'https' if certificate else 'http'}://localhost:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def wrapped(self, context):
        connection, address = self.http.socket.accept()
        return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

    def stop(self):
        self.released.set()
        self.http.shutdown()
        self.http.server_close()


class Proxy:
    """Passes on what comes after CONNECT, to the port `leads_to` on this machine or to what is asked for; `targets` says what
    that is. With `refuses` it answers so, and passes nothing on."""

    def __init__(self, refuses=None, leads_to=None):
        self.targets, self.refuses, self.leads_to = [], refuses, leads_to
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://user:geheim@127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        request = b""
        while b"\r\n\r\n" not in request:
            request += client.recv(65536)
        target = request.split()[1].decode()
        self.targets.append(target)
        if self.refuses:
            client.sendall(f"HTTP/1.1 {self.refuses} No\r\nContent-Length: 0\r\n\r\n".encode())
            return client.close()
        host, port = ("localhost", self.leads_to) if self.leads_to else target.rsplit(":", 1)
        server = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Yes\r\n\r\n")
        ends = {client: server, server: client}
        while True:
            for end in select.select(list(ends), [], [])[0]:
                try:
                    data = end.recv(65536)
                    ends[end].sendall(data)
                except OSError:
                    data = b""
                if not data:
                    client.close()
                    return server.close()

    def stop(self):
        self.listener.close()
