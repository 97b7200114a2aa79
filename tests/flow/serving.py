"""A `kiln serve` that runs, and how it is asked. Standard library only."""
import http.client
import json
import os
import socket
import subprocess

from flow import KILN


class Server:
    """Started on 127.0.0.1 and a free port unless `environment` decides; ends with the test."""

    def __init__(self, test, *words, device="cpu", environment=None, cwd=None):
        command = [str(word) for word in (KILN, "serve", "--port", 0, "--device", device, "--threads", 2, *words)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd,
                                        stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        test.addCleanup(self.process.stdout.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)
        self.lines = []
        for line in self.process.stdout:
            self.lines.append(line)
            if line.startswith("serving:"):
                self.host, _, port = line.strip().rpartition("//")[2].rpartition(":")
                self.port = int(port)
                return
        raise AssertionError(f"it does not serve:\n{''.join(self.lines)}")

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body of a response, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def status(self, *words, **headers):
        return self.ask(*words, **headers)[0]

    def json(self, method, path, body=None, **headers):
        """Status and the object of a response."""
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body).encode(), {"Content_Type": "application/json", **headers}
        status, _, text = self.ask(method, path, body, **headers)
        return status, json.loads(text)

    def raw(self, data, timeout=30):
        """What the server says to these bytes until it closes."""
        with self.connect(timeout) as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:  # it has answered and closed already
                pass
            return self.rest(connection)

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout=timeout)

    @staticmethod
    def rest(connection):
        said = b""
        try:
            while piece := connection.recv(1 << 16):
                said += piece
        except ConnectionResetError:
            pass
        return said

    def metrics(self):
        """Name with labels -> value."""
        text = self.ask("GET", "/metrics")[2].decode()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")}

    def end(self, signal):
        """The exit code and all that was logged."""
        self.process.send_signal(signal)
        output = self.process.communicate(timeout=40)[0]
        return self.process.returncode, "".join(self.lines) + output


def form(*files):
    """The body of multipart/form-data and its type, of (file name, bytes)."""
    parts = [f'--x7x\r\nContent-Disposition: form-data; name="image"; filename="{name}"\r\nContent-Type: image/jpeg\r\n\r\n'.encode()
             + data + b"\r\n" for name, data in files]
    return b"".join(parts) + b"--x7x--\r\n", "multipart/form-data; boundary=x7x"
