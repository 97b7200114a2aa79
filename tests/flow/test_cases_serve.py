"""`kiln serve` and clients that differ from curl's: forms with an image that is named in another way (case 101), JSON without its
type, and what attacks found (B1 to B16): answers that are too large, reloads, uploads, keys."""
import base64
import json
import os
import pathlib
import resource
import shutil
import signal
import time

from flow import FlowTest, kiln, main
from serving import Server
from test_serve import png

HEAD = b"POST /predict HTTP/1.1\r\nHost: a\r\n"
DOT = png(1, 1, bytes(4))


def form_of(*parts, boundary="X"):
    """A form of (headers, contents)."""
    mark = boundary.encode()
    parts = [b"--" + mark + b"\r\n" + head + (b"\r\n" if head else b"") + b"\r\n" + data + b"\r\n" for head, data in parts]
    return b"".join(parts) + b"--" + mark + b"--\r\n"


def field(rest, name=b"photo"):
    return b'Content-Disposition: form-data; name="' + name + b'"' + rest


class ServeCases(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.photos = [path.read_bytes() for path in sorted((cls.data / "val").rglob("*.png"))]

    def serve(self, *words, model=None):
        return Server(self, "--trained-model-path", model or self.trained_model, *words)

    def own_model(self):
        shutil.copytree(self.trained_model, self.folder / "model")
        return self.folder / "model"

    def edit(self, path, **values):
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    def reload(self, server, result):
        """Reads the model again, and waits for its end."""
        name = f'kiln_model_reloads_total{{result="{result}"}}'
        count = server.metrics().get(name, 0)
        server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + 60
        while server.metrics().get(name, 0) == count:
            self.assertLess(time.monotonic(), end)
            time.sleep(.02)


class FormsTest(ServeCases):
    KIND = "multipart/form-data; boundary=X"

    def answer(self, server, body, path="/predict", kind=KIND):
        return server.json("POST", path, body, Content_Type=kind)

    def test_every_image_of_a_form_is_answered(self):
        """101, B10: whatever calls it an image, in order, by every contract that takes forms."""
        server = self.serve("--max-batch", 1)
        first, second = self.photos[0], self.photos[-1]
        expected = [server.json("POST", "/predict", photo)[1] for photo in (first, second)]
        plain = field(b'; filename="a.png"')
        images = {  # the headers of a part, and the name that is answered
            field(b"; filename*=utf-8''k%C3%A4%25.png"): "k\u00e4%.png", field(b"; FileName*=UTF-8'de'b.png"): "b.png",
            field(b'; filename="x.png"; filename*=utf-8\'\'b.png'): "b.png", field(b'; filename*0="b"; filename*1=".png"'): None,
            field(b"\r\nContent-Type: image/png"): None, field(b"\r\ncontent-type:IMAGE/PNG; name=b"): None, field(b""): None,
            field(b"\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: binary"): None,
            field(b'; filename=""'): None, field(b'; filename = "b.png"'): "b.png", field(b";filename=b.png"): "b.png",
            field(b';\r\n filename="b.png"'): "b.png", field(b';\r\n\tfilename\r\n = b.png'): "b.png",
            field(b'; filename="a\\"b;c\\\\.png"'): 'a"b;c\\.png', field(b'; filename="C:\\photos\\b.png"'): "C:\\photos\\b.png",
            field(b'; filename="b.png"', b"note; filename=x"): "b.png", field(b'; filename="b.png";'): "b.png",
            b'CONTENT-DISPOSITION : attachment; filename="b.png"': "b.png", b"X-Other: 1": None, b"": None}
        for head, name in images.items():
            with self.subTest(head=head):
                status, found = self.answer(server, form_of((plain, first), (head, second), (field(b"", b"note"), b"text")))
                self.assertEqual(status, 200, found)
                self.assertEqual([row.pop("path") for row in found["predictions"]], ["a.png", name])
                self.assertEqual(found["predictions"], [{key: value for key, value in row.items() if key != "path"}
                                                        for row in expected])
        body = form_of((field(b"; filename*=utf-8''b.png"), second), (field(b"\r\nContent-Type: image/png"), first))
        for path in ("/predict", "/invocations", "/score", "/explain"):
            for kind in (self.KIND, 'Multipart/Form-Data ; charset="a;b"; Boundary="X"', "multipart/mixed; boundary=X"):
                status, found = self.answer(server, body, path, kind)
                self.assertEqual((status, [row["path"] for row in found["predictions"]]), (200, ["b.png", None]))
                self.assertEqual([row["label"] for row in found["predictions"]], [row["label"] for row in reversed(expected)])

    def test_an_image_that_cannot_be_used_has_an_answer(self):
        server = self.serve()
        plain = field(b'; filename="a.png"'), self.photos[0]
        for head, data in ((field(b""), self.photos[1][:100]), (field(b'; filename="b.png"'), b""),
                           (field(b"\r\nContent-Type: image/png"), b"text"),
                           (field(b""), b"GIF89a" + bytes(100)), (field(b"", b"image"), b"text"),
                           (field(b""), b"PK\x03\x04" + bytes(100)), (field(b""), b"<svg xmlns='http://www.w3.org/2000/svg'/>")):
            with self.subTest(head=head, data=data[:9]):
                status, found = self.answer(server, form_of((head, data), plain))
                self.assertEqual((status, [bool(row["fault"]) for row in found["predictions"]]), (200, [True, False]))

    def test_text_of_a_form_is_no_image(self):
        """B12, and what browsers send for a file that was not chosen."""
        server = self.serve()
        plain = field(b'; filename="a.png"'), self.photos[0]
        for head, data in ((field(b""), b"text"), (field(b"", b"note; filename=x"), b"text"),
                           (field(b"", b'note\\"; filename=\\"x'), b"text"), (field(b"\r\nContent-Type: application/json"), b"{}"),
                           (field(b'; filename=""\r\nContent-Type: application/octet-stream'), b""), (field(b"", b"image"), b""),
                           (field(b""), b""), (field(b""), b"P1 urgent"), (field(b'; filename=""'), b"text"), (field(b""), "K\u00e4fer".encode("latin-1"))):
            with self.subTest(head=head, data=data):
                status, found = self.answer(server, form_of((head, data), plain, (head, data)))
                self.assertEqual((status, [row["path"] for row in found["predictions"]]), (200, ["a.png"]))
                self.assertEqual(self.answer(server, form_of((head, data)))[0], 400)

    def test_what_is_not_understood_is_refused_and_named(self):
        server = self.serve("--max-queue", 2000)
        photo, plain = self.photos[0], (field(b'; filename="a.png"'), self.photos[0])
        inner = form_of((b'Content-Disposition: file; filename="b.png"', photo), boundary="Y")
        text = base64.b64encode(photo)
        for head, data in ((field(b'; filename="a.png'), photo), (field(b'; filename="a.png"; filename="b.png"'), photo),
                           (field(b"; filename"), photo), (field(b"\r\n" + plain[0]), photo), (field(b"\r\nno header"), photo),
                           (field(b"\r\nContent-Type: Multipart/Mixed; boundary=Y"), inner),
                           (field(b"\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: Base64"), text),
                           (field(b'; filename="b.png"\r\nContent-Transfer-Encoding: quoted-printable'), text),
                           (field(b""), b"data:image/png;base64," + text), (field(b'; filename="' + b"b" * 5000 + b'"'), photo)):
            with self.subTest(head=head[:90]):
                status, found = self.answer(server, form_of(plain, (head, data), plain))
                self.assertEqual((status, list(found)), (400, ["error"]), found)
                self.assert_names(found["error"], "Part 2")
        self.assert_names(self.answer(server, form_of((field(b"\r\nContent-Type: multipart/mixed", b"files"), inner)))[1]["error"],
                          "Part 1", "files")
        whole = form_of(plain, plain)
        for body, kind in ((whole[:-len(b"--X--\r\n")], self.KIND), (whole[:-10], self.KIND), (whole[:-4] + b"Y\r\n", self.KIND),
                           (whole + whole, self.KIND), (whole.replace(b"\r\n--X\r\n", b"\n--X\r\n", 1), self.KIND),
                           (whole.replace(b"\r\n", b"\n"), self.KIND), (whole.replace(b"--X\r\n", b"--XY\r\n", 1), self.KIND),
                           (whole.replace(b"\r\n\r\n", b"\r\n", 1), self.KIND), (whole, "multipart/form-data"),
                           (whole, "multipart/form-data; boundary=\"X"), (whole, "multipart/form-data; boundary=X; boundary=X"),
                           (whole, "multipart/form-data; boundary=Y"), (b"--X--\r\n", self.KIND), (b"--X", self.KIND),
                           (form_of(*[plain] * 1025), self.KIND)):
            with self.subTest(body=body[-9:], kind=kind):
                self.assertEqual(self.answer(server, body, kind=kind)[0], 400)

    def test_json_is_known_without_its_type(self):
        """The smaller cases of 101 on: curl calls what it sends a form."""
        server = self.serve("--max-batch", 1)
        text = base64.b64encode(self.photos[0]).decode()
        expected = server.json("POST", "/predict", self.photos[0])[1]
        body = json.dumps({"image": text}).encode()
        for data in (body, b"\xef\xbb\xbf \r\n" + body):
            for kind in (None, "application/x-www-form-urlencoded", "text/plain; charset=utf-8", "text/json",
                         "application/problem+json"):
                headers = {"Content_Type": kind} if kind else {}
                for path in ("/predict", "/invocations", "/score"):
                    self.assertEqual(server.json("POST", path, data, **headers), (200, expected), kind)
        found = server.json("POST", "/predict", json.dumps({"images": [text, {"b64": text}]}).encode())
        self.assertEqual(found, (200, {"predictions": [expected] * 2}))
        self.assertEqual(server.status("POST", "/predict", body, Content_Type="image/png"), 422)
        for spoiled in ('{"image": "%s", "images": ["%s"]}', '{"image": "%s", "image": "%s"}', '{"images": ["%s"], "images": ["%s"]}',
                        '{"images": ["%s"], "instances": ["%s"]}', '["%s", "%s"]', '{"images": ["%s", "%s", 7]}', '{"images": [], "x": "%s%s"}'):
            self.assertEqual(server.status("POST", "/predict", (spoiled % (text, text)).encode()), 400, spoiled[:40])


class AttacksTest(ServeCases):
    def infer(self, server, count, **more):
        request = {"inputs": [{"name": "i", "shape": [count], "datatype": "BYTES", "data": [base64.b64encode(DOT).decode()] * count}]}
        return server.json("POST", "/v2/models/m/infer", {**request, **more})

    def test_what_is_built_is_bounded(self):
        """B1, B11"""
        server = self.serve("--max-body-mib", 1, "--max-queue", 20000)
        for outputs in (["label", "label"], ["label", "probabilities", "label"], ["probabilities"] * 1000):
            status, found = self.infer(server, 64, outputs=[{"name": name} for name in outputs])
            self.assertEqual(status, 400)
            self.assert_names(found["error"], outputs[0])
        self.assertEqual(self.infer(server, 2, outputs=[{"name": "label"}, {"name": "confidence"}])[0], 200)
        self.assertEqual(self.infer(server, 1, id="x" * 5000)[0], 400)
        inputs = json.dumps({"inputs": [{"name": "i", "shape": [1], "datatype": "BYTES", "data": [base64.b64encode(DOT).decode()]}]})
        self.assertEqual(server.status("POST", "/v2/models/m/infer", inputs.encode() + DOT,
                                       Inference_Header_Content_Length=str(len(inputs))), 400)
        self.assertEqual(server.status("POST", "/v2/models/m/infer", inputs[:-1] + ", " + inputs[1:]), 400)  # a key twice
        text = base64.b64encode(DOT).decode()
        self.assertEqual(server.status("POST", "/predict", json.dumps({"images": [text] * 100}).encode()), 200)
        for path in ("/predict", "/explain", "/invocations", "/score"):
            status, found = server.json("POST", path, json.dumps({"images": [text] * 9000}).encode())
            self.assertEqual(status, 413)
            self.assert_names(found["error"], "--max-body-mib")
        photo = self.photos[0]
        for value in (b"gzip, chunked", b"identity, chunked", b"chunked;q=1", b"gzip\r\nTransfer-Encoding: chunked", b"chunked, chunked",
                      b"chunked;q=1, x", b"chunked, gzip", b"gzip", b"chunked\r\nTransfer-Encoding: chunked", b'"chunked"'):
            said = server.raw(HEAD + b"Connection: close\r\nTransfer-Encoding: " + value + b"\r\n\r\n%x\r\n" % len(photo) + photo
                              + b"\r\n0\r\n\r\n")
            self.assertIn(said.split(b" ")[1], (b"501", b"400"), value)
        said = server.raw(HEAD + b"Connection: close\r\nTransfer-Encoding:\t Chunked \r\n\r\n%x\r\n" % len(photo) + photo + b"\r\n0\r\n\r\n")
        self.assertEqual(said.split(b" ")[1], b"200")

    def test_the_newest_upload_is_refused_and_the_others_go_on(self):
        """B6: bodies together take at most 256 MiB."""
        server, mib = self.serve(), 1 << 20

        def upload(head, sent=b""):
            connection = server.connect()
            self.addCleanup(connection.close)
            connection.sendall(HEAD + head + b"\r\n\r\n" + sent)
            return connection
        uploads = [upload(b"Content-Length: %d" % (24 * mib), bytes(1000)) for _ in range(10)]
        time.sleep(.3)
        for _ in range(3):
            self.assertEqual(upload(b"Content-Length: %d" % (24 * mib)).recv(12), b"HTTP/1.1 503")
        chunked = upload(b"Transfer-Encoding: chunked", b"%x\r\n" % (20 * mib) + bytes(17 * mib))
        self.assertEqual(chunked.recv(12), b"HTTP/1.1 503")
        self.assertEqual(server.status("POST", "/predict", self.photos[0]), 200)
        uploads[0].sendall(bytes(24 * mib - 1000))
        self.assertEqual(uploads[0].recv(12), b"HTTP/1.1 422")
        last = upload(b"Content-Length: %d\r\nExpect: 100-continue" % (24 * mib))
        self.assertEqual(last.recv(12), b"HTTP/1.1 100")
        self.assertEqual(server.metrics()['kiln_requests_total{route="none",code="503"}'], 4)

    def test_a_reload_is_as_careful_as_a_start(self):
        """B4, B14"""
        model = self.own_model()
        server = self.serve(model=model)
        expected = server.json("POST", "/predict", self.photos[0])
        for name in ("index_to_label.csv", "calibration.json", "preprocessing.json"):
            text = (model / name).read_text()
            (model / name).unlink()
            self.reload(server, "failed")
            self.assertEqual(server.json("POST", "/predict", self.photos[0]), expected, name)
            (model / name).write_text(text)
        text = (model / "preprocessing.json").read_text()
        self.edit(model / "preprocessing.json", input_size=[8192, 8192], resize_short_side=8192)
        memory, pages = resource.RLIMIT_AS, pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[0]
        before = resource.prlimit(server.process.pid, memory)
        resource.prlimit(server.process.pid, memory, (int(pages) * os.sysconf("SC_PAGE_SIZE") + (2 << 30), before[1]))
        self.reload(server, "failed")
        resource.prlimit(server.process.pid, memory, before)
        (model / "preprocessing.json").write_text(text)
        self.reload(server, "done")
        self.assertEqual(server.json("POST", "/predict", self.photos[0]), expected)
        log = server.end(signal.SIGTERM)[1]
        self.assert_names(log, "index_to_label.csv", "calibration.json", "preprocessing.json", "Out of memory", "--max-batch")
        self.assertNotIn("bad_alloc", log)
        self.assertEqual(log.count("model:     resnet18"), 2, log)  # of the start and of the only reload

    def test_a_reload_tells_what_a_start_tells(self):
        """B4, of a model that has never had names for its classes."""
        model = self.own_model()
        (model / "index_to_label.csv").unlink()
        server = self.serve(model=model)
        self.reload(server, "done")
        log = server.end(signal.SIGTERM)[1]
        self.assertEqual(log.count("index_to_label.csv"), 2, log)

    def test_keys(self):
        """B16"""
        key = self.folder / "key"
        for text in (b"ses\0ame", "s\u00e9same".encode()):
            key.write_bytes(text)
            failed = kiln("serve", "--trained-model-path", self.trained_model, "--device", "cpu", "--port", 0, "--key-file", key)
            self.assertEqual(failed.returncode, 1, text)
            self.assert_names(failed.stderr, "--key-file")
        key.write_bytes(b"\xef\xbb\xbfs~!same\r\n")
        server = self.serve("--key-file", key)
        for given, status in (("Bearer s~!same", 200), ("bearer s~!same", 200), ("BEARER  s~!same", 200), ("Bearer s~!SAME", 401),
                              ("Bearers~!same", 401), ("Bearer", 401), ("Basic s~!same", 401), ("", 401)):
            self.assertEqual(server.status("POST", "/predict", self.photos[0], Authorization=given), status, given)

    def test_numbers_that_make_every_answer_none(self):
        """B13"""
        model = self.own_model()
        for file, key, values in (("calibration.json", "temperature", (1e-300, 1e300)),
                                  ("preprocessing.json", "std", ([1, 1, 1e-300],)),
                                  ("preprocessing.json", "mean", ([0, 0, -1e300],))):
            text = (model / file).read_text()
            for value in values:
                self.edit(model / file, **{key: value})
                failed = kiln("score", "--trained-model-path", model, "--data-path", self.data / "val", "--device", "cpu",
                              "--output-path", self.folder / "s.csv")
                self.assertEqual(failed.returncode, 1, value)
                self.assert_names(failed.stderr, file, key, "1000000")
            (model / file).write_text(text)


if __name__ == "__main__":
    main()
