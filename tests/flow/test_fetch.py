"""`--weights https://…`: what is fetched from good, bad and slow servers, and what stays in the cache. What concerns the
transfer alone goes through kiln_fetch_tool, which starts at once; the rest through `kiln init-model`."""
import errno
import hashlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

from fetch_server import FileServer, Proxy, make_authority
from flow import KILN, FlowTest, become_nobody, main, networks

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ.get("KILN_FETCH_TOOL", str(pathlib.Path(KILN).parent / "kiln_fetch_tool"))
FAULTS = os.environ.get("KILN_FAULTS", str(pathlib.Path(KILN).parent / "tests/faults/libkiln_faults.so"))
CONTENT = random.Random(1).randbytes(3_000_000)
HASH = hashlib.sha256(CONTENT).hexdigest()
NAME = f"net-{HASH[:8]}.pth"


class FetchTest(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.keys = pathlib.Path(tempfile.mkdtemp(prefix="kiln-keys-"))
        cls.addClassCleanup(shutil.rmtree, cls.keys, ignore_errors=True)
        make_authority(cls.keys)

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache/kiln/weights"

    def server(self, content=CONTENT, certificate="server.pem", **settings):
        server = FileServer(content, certificate and self.keys / certificate, **settings)
        self.addCleanup(server.stop)
        return server

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items()
                if not name.lower().endswith("_proxy") and name not in ("CURL_CA_BUNDLE", "SSL_CERT_DIR")}
        return {**kept, "SSL_CERT_FILE": str(self.keys / "ca.pem"), "XDG_CACHE_HOME": str(self.folder / "cache"), **more}

    def fetch(self, url, *more, preexec=None, **environment):
        """With the tool; `more`: hash or "-", seconds until a stall, largest size."""
        return subprocess.run([TOOL, url, *map(str, more)], capture_output=True, text=True, timeout=60, preexec_fn=preexec,
                              env=self.environment(**environment))

    def files(self):
        """In the cache, by the ends of their names."""
        names = {path.name: path for path in self.cache.iterdir()} if self.cache.is_dir() else {}
        return {re.sub(r"^[0-9a-f]{8}-", "", name): path for name, path in names.items()}

    def assert_fetched(self, result, content=CONTENT):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        path = pathlib.Path(result.stdout.splitlines()[-1])
        self.assertEqual(path.read_bytes(), content)
        self.assertEqual({path, pathlib.Path(f"{path}.fetch")}, set(self.files().values()))

    def assert_not_fetched(self, result, *words, code=162):
        """Refused, and no file has the name of a whole one."""
        self.assertEqual(result.returncode, 3 if code == 160 else 1, result.stdout + result.stderr)
        self.assert_names(result.stderr, f"error {code}: ", *words)
        self.assertEqual([name for name in self.files() if not name.endswith(".fetch")], [])

    # ---- transfers ----

    def test_the_second_time_it_is_in_the_cache(self):
        server = self.server()
        result = self.fetch(f"{server.url}/models/{NAME}?signature=geheim")
        self.assert_fetched(result)
        self.assert_names(result.stdout, HASH, "3 MB")
        self.assertNotIn("geheim", result.stdout)
        again = self.fetch(f"{server.url}/models/{NAME}?signature=geheim")
        self.assert_fetched(again)
        self.assertEqual((len(server.requests), server.bytes_sent), (1, len(CONTENT)))
        self.assertEqual(server.requests[0][0], f"/models/{NAME}?signature=geheim")

    def test_a_damaged_file_in_the_cache_is_fetched_again(self):
        server = self.server()
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))
        self.files()[NAME].write_bytes(CONTENT[:-1] + b"x")
        result = self.fetch(f"{server.url}/{NAME}")
        self.assert_fetched(result)
        self.assertEqual(result.stdout.count("damaged"), 1)
        self.assertEqual(len(server.requests), 2)
        record = self.files()[NAME + ".fetch"]
        good = record.read_text()
        for number, text in enumerate((good[:-1], good[:-2] + "\n", good.replace(HASH, HASH.upper()), "x" * 10_000), 3):
            record.write_text(text)
            self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))
            self.assertEqual((len(server.requests), record.read_text()), (number, good))

    def test_a_cache_that_cannot_be_written_gives_what_it_has(self):
        server = self.server()
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))
        self.cache.chmod(0o555)
        self.addCleanup(self.cache.chmod, 0o755)
        self.folder.chmod(0o755)
        preexec = None
        if os.geteuid() == 0:
            self.need_nobody()
            preexec = become_nobody
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}", preexec=preexec))
        self.assertEqual(len(server.requests), 1)
        result = self.fetch(f"{server.url}/other.pth", preexec=preexec)
        self.assert_refused(result, 3, "XDG_CACHE_HOME")

    def test_two_at_once_fetch_once(self):
        def slowly(handler):
            time.sleep(0.5)
            return False
        server = self.server(misbehave=slowly)
        both = [subprocess.Popen([TOOL, f"{server.url}/{NAME}"], env=self.environment(), stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
        texts = [process.communicate(timeout=60)[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], texts)
        self.assertEqual(len(server.requests), 1)
        self.assertEqual(sum("Waiting for another process" in text for text in texts), 1)

    def test_what_breaks_off_begins_anew(self):
        other = random.Random(2).randbytes(2_000_000)

        def misbehave(handler):
            if len(server.requests) == 1:
                handler.answer(stop_at=1_000_000)
                server.content = other
            return len(server.requests) == 1
        server = self.server(misbehave=misbehave)
        self.assert_fetched(self.fetch(f"{server.url}/net.pth"), other)
        self.assertEqual((len(server.requests), server.bytes_sent), (2, 1_000_000 + len(other)))

    def test_transient_failures_pass(self):
        answers = [(503, {}), (429, {"Retry_After": 1})]

        def misbehave(handler):
            if not answers:
                return False
            status, headers = answers.pop(0)
            handler.say(status, **headers)
            return True
        server = self.server(misbehave=misbehave)
        begin = time.monotonic()
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))
        self.assertGreater(time.monotonic() - begin, 1.4)
        self.assertEqual(len(server.requests), 3)

    def test_failures_that_last_are_told(self):
        def misbehave(handler):
            """404; or in turns one byte and 500."""
            if "500" in handler.path and len(server.requests) % 2 == 0:
                handler.answer(stop_at=1)
            else:
                handler.say(500 if "500" in handler.path else 404)
            return True
        server = self.server(misbehave=misbehave)
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}"), "HTTP status 404", server.url)
        self.assertEqual(set(self.files()), {NAME + ".fetch"})
        self.assertEqual(len(server.requests), 1)
        self.assert_not_fetched(self.fetch(f"{server.url}/500/{NAME}"), "HTTP status 500")
        self.assertEqual(len(server.requests), 5)

    def test_a_stall_ends(self):
        def hang(handler):
            handler.answer(stop_at=1_000_000)
            server.released.wait()
            return True
        server = self.server(misbehave=hang)
        url = f"{server.url}/{NAME}"
        process = subprocess.Popen([TOOL, url, "-", "1"], env=self.environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if "failed" in line:
                break
        self.assertIn("1 s", line)
        server.misbehave = lambda handler: False
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(server.bytes_sent, 1_000_000 + len(CONTENT))

    def test_what_a_kill_leaves_is_removed_by_the_next_run(self):
        def hang(handler):
            handler.answer(stop_at=1_000_000)
            server.released.wait()
            return True
        server = self.server(misbehave=hang)
        url = f"{server.url}/{NAME}"
        command = [KILN, "init-model", "resnet18", "--untrained-model-path", self.folder / "made", "--weights", url]
        process = subprocess.Popen(command, env=self.environment(), stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        last = time.monotonic() + 30
        while sum(path.stat().st_size for name, path in self.files().items() if name.startswith(".kiln-tmp-")) < 1_000_000:
            self.assertLess(time.monotonic(), last)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 143)
        self.assertEqual(len(self.files()), 2)
        self.assertFalse((self.folder / "made/_meta.yaml").exists())
        server.misbehave = lambda handler: False
        self.assert_fetched(self.fetch(url))

    def test_no_way_to_see_the_end(self):
        def unknown(handler):
            handler.answer(**{"Content-Length": None})
            return True
        server = self.server(misbehave=unknown)
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}"), "the file's length")

    def test_an_empty_file(self):
        self.assert_not_fetched(self.fetch(f"{self.server(content=b'').url}/net.pth"), "empty")

    # ---- hashes ----

    def test_another_hash_removes_the_file(self):
        server = self.server()
        wrong = "0" * 64
        result = self.fetch(f"{server.url}/net.pth", wrong)
        self.assert_not_fetched(result, wrong, HASH, "--weights-sha256")
        self.assertEqual(set(self.files()), {"net.pth.fetch"})
        result = self.fetch(f"{server.url}/net-12345678.pth")
        self.assert_not_fetched(result, "12345678", HASH, "its file name", "--weights-sha256")
        self.assert_fetched_as("net-12345678.pth", self.fetch(f"{server.url}/net-12345678.pth", HASH))
        self.assert_fetched_as("net-20240131.pth", self.fetch(f"{server.url}/net-20240131.pth"))

    def assert_fetched_as(self, name, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.files()[name].read_bytes(), CONTENT)

    def test_a_hash_that_the_cached_file_has_not(self):
        server = self.server()
        self.assert_fetched(self.fetch(f"{server.url}/net.pth"))
        server.content = CONTENT[::-1]
        result = self.fetch(f"{server.url}/net.pth", hashlib.sha256(CONTENT[::-1]).hexdigest())
        self.assert_fetched(result, CONTENT[::-1])

    # ---- where from ----

    def test_redirects(self):
        target = self.server()

        def leading_to(place):
            return self.server(misbehave=lambda handler: handler.say(302, Location=place) or True)
        self.assert_fetched(self.fetch(f"{leading_to(target.url + '/file').url}/{NAME}"))
        plain = self.server(certificate=None)
        result = self.fetch(f"{leading_to(plain.url).url}/x.pth")
        self.assertIn(f"'{plain.url}/'", result.stderr)
        result = self.fetch(f"{leading_to('ftp://127.0.0.1/x').url}/x.pth")
        self.assertIn("ftp://127.0.0.1/x", result.stderr)
        self.assertEqual(plain.requests, [])
        round_and_round = self.server(misbehave=lambda handler: handler.say(307, Location=handler.path + "x") or True)
        result = self.fetch(f"{round_and_round.url}/x")
        self.assertEqual(len(round_and_round.requests), 11)

    def test_plain_http_is_for_this_machine(self):
        server = self.server(certificate=None)
        proxy = self.proxy()
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}", http_proxy=proxy.url, ALL_PROXY=proxy.url))
        self.assertEqual(proxy.targets, [])
        for url in ("http://example.org/x.pth", "http://localhost@example.org/x.pth", "ftp://localhost/x.pth",
                    "s3://bucket/x.pth", "https:///x.pth", "https://user:word@localhost/x.pth"):
            with self.subTest(url=url):
                result = self.fetch(url)
                self.assert_refused(result, 1, "cannot be downloaded")
                self.assertNotIn("word@", result.stderr)

    def test_certificates(self):
        """The authority is named by SSL_CERT_FILE or CURL_CA_BUNDLE, the latter first."""
        server, own = self.server(), self.server(certificate="self.pem")
        self.assert_not_fetched(self.fetch(f"{own.url}/{NAME}"), "certificate", "SSL_CERT_FILE")
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}", SSL_CERT_FILE=""), "SSL_CERT_FILE")
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}", SSL_CERT_FILE="/nowhere.pem"), "SSL_CERT_FILE")
        other_name = server.url.replace("localhost", "127.0.0.1")
        self.assert_not_fetched(self.fetch(f"{other_name}/{NAME}"), "certificate")
        self.assertEqual(own.requests + server.requests, [])
        both = {"CURL_CA_BUNDLE": str(self.keys / "ca.pem"), "SSL_CERT_FILE": "/nowhere.pem"}
        self.assert_fetched_as(NAME, self.fetch(f"{server.url}/{NAME}", **both))

    def proxy(self, **settings):
        proxy = Proxy(**settings)
        self.addCleanup(proxy.stop)
        return proxy

    def test_proxies(self):
        server, proxy, closed = self.server(), self.proxy(), self.proxy(refuses=403)
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}", https_proxy=proxy.url))
        self.assertEqual(proxy.targets, [server.url.removeprefix("https://")])
        result = self.fetch(f"{server.url}/x.pth", https_proxy=closed.url)
        self.assert_names(result.stderr, "https_proxy", "403")
        self.assertNotIn("geheim", result.stdout + result.stderr)
        self.assertEqual(len(closed.targets), 1)
        self.assertEqual(self.fetch(f"{server.url}/y.pth", https_proxy=closed.url, no_proxy="localhost").returncode, 0)

    # ---- where to ----

    def test_a_full_disk(self):
        server = self.server()
        fault = {"LD_PRELOAD": FAULTS, "KILN_FAULT_PROGRAM": os.path.realpath(TOOL),
                 "KILN_FAULT": f"write {errno.ENOSPC} 8 from {self.cache}"}
        result = self.fetch(f"{server.url}/{NAME}", **fault)
        self.assert_not_fetched(result, os.strerror(errno.ENOSPC), "XDG_CACHE_HOME", code=160)
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))

    def test_a_disk_that_is_too_small_is_told_before(self):
        room = self.folder / "cache"
        room.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(room)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("mounting a small tmpfs needs more rights")
        self.addCleanup(subprocess.run, ["umount", str(room)])
        self.assert_not_fetched(self.fetch(f"{self.server().url}/{NAME}"), "3 MB", "are free", code=160)
        self.assertEqual(set(self.files()), {NAME + ".fetch"})

    def test_a_file_that_is_too_large(self):
        server = self.server()
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}", "-", 60, 2_000_000), "3,000,000 bytes", "2 MB")

        def in_chunks(handler):
            handler.send_response(200)
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            for at in range(0, len(CONTENT), 100_000):
                handler.wfile.write(b"186a0\r\n" + CONTENT[at:at + 100_000] + b"\r\n")
            handler.wfile.write(b"0\r\n\r\n")
            return True
        server.misbehave = in_chunks
        self.assert_not_fetched(self.fetch(f"{server.url}/{NAME}", "-", 60, 2_000_000), "more than the 2 MB")
        self.assert_fetched(self.fetch(f"{server.url}/{NAME}"))

    def test_no_place_for_a_cache(self):
        url = f"{self.server().url}/{NAME}"
        self.assert_not_fetched(self.fetch(url, XDG_CACHE_HOME="", HOME=""), "XDG_CACHE_HOME", code=160)
        self.assert_not_fetched(self.fetch(url, XDG_CACHE_HOME="/proc/nowhere"), "XDG_CACHE_HOME", code=160)
        self.assertEqual(self.fetch(url, XDG_CACHE_HOME="", HOME=str(self.folder)).returncode, 0)
        self.assertTrue(any((self.folder / ".cache/kiln/weights").iterdir()))

    # ---- the program ----

    def init(self, *more):
        words = [KILN, "init-model", "resnet18", "--untrained-model-path", self.folder / "made", *more]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, env=self.environment())

    def test_init_model(self):
        source = self.untrained / "model"
        content = source.read_bytes()
        good = hashlib.sha256(content).hexdigest()
        server = self.server(content=content)
        for _ in range(2):
            made = self.init("--weights", f"{server.url}/net.pth", "--weights-sha256", good.upper())
            self.assertEqual(made.returncode, 0, made.stderr)
            self.assertEqual((self.folder / "made/model").read_bytes(), content)
        self.assertEqual(len(server.requests), 1)
        result = self.init("--weights", f"{server.url}/net.pth", "--weights-sha256", "0" * 64)
        self.assert_refused(result, 1, "0" * 64, good)
        self.assertEqual(len(server.requests), 2)
        result = self.init("--weights", source, "--weights-sha256", "0" * 64)
        self.assert_refused(result, 1, "0" * 64, good)
        self.assert_refused(self.init("--weights", "http://example.org/x.pth"), 2, "not encrypted")

    def test_nothing_is_fetched_for_an_output_that_cannot_be(self):
        (self.folder / "made").mkdir()
        (self.folder / "made/thesis.tex").write_text("precious")
        server = self.server()
        self.assert_refused(self.init("--weights", f"{server.url}/{NAME}"), 3, "thesis.tex")
        self.assertEqual(server.requests, [])

    def test_the_names_are_torchvisions(self):
        source = os.environ.get("KILN_PARITY_PACKAGES") or ROOT / ".deps/parity"
        models = pathlib.Path(source) / "torchvision/models"
        if not models.is_dir():
            self.skipTest(f"no torchvision in {source}: run environment/install.sh")
        families = ("resnet", "densenet", "mobilenetv3", "efficientnet", "convnext", "vision_transformer")
        text = "".join((models / f"{family}.py").read_text() for family in families)
        published = set(re.findall(r"https://download\.pytorch\.org/models/([\w.-]+)", text))
        table = (ROOT / "docs/weights.md").read_text()
        rows = re.findall(r"^\| (\w+) \| `(\1[-_]\w*-?[0-9a-f]{8}\.pth)` .*?(?:`(\1-[0-9a-f]{8}\.pth)`.*)?$", table, re.M)
        elsewhere = {"vit_s_16", "vit_s_14", "vit_b_14"}  # timm's and DINOv2's
        names = [name for name in networks() if name not in elsewhere]
        self.assertEqual([network for network, _, _ in rows], names)
        for network, *names in rows:
            names = [name for name in names if name]
            for number, name in enumerate(names, 1):
                self.assertRegex(text, rf'IMAGENET1K_V{number} = Weights\((\s*#.*)*\s*url="[^"]*/{re.escape(name)}"')
                mib = re.search(re.escape(name) + r'"(?:(?!Weights\().)*?"_file_size": ([\d.]+)', text, re.S)[1]
                self.assertIn(f"`{name}` | {round(float(mib) * 2**20 / 1e6)} |", table)
            self.assertEqual(len(names), sum(bool(re.match(network + "(_rwightman)?-", name)) for name in published))

    def test_the_names_are_timms(self):
        source = os.environ.get("KILN_PARITY_PACKAGES") or ROOT / ".deps/parity"
        models = pathlib.Path(source) / "timm/models"
        if not models.is_dir():
            self.skipTest(f"no timm in {source}: run environment/install.sh")
        text = "".join(path.read_text() for path in sorted(models.glob("*.py")))
        table = (ROOT / "docs/weights.md").read_text().split("<!-- timm -->")[1].split("<!-- /timm -->")[0]
        rows = re.findall(r"^\| (\w+) \| `([\w.]+)` \| (\d+) \| [\d.]* \| (yes|no) \|$", table, re.M)
        catalogue = (ROOT / "src/model/catalogue.cpp").read_text().split("kTimms{{")[1].split("}};")[0]
        listed = [(*re.findall(r'"([\w.]+)", (\d+)', row)[0], "yes" if re.search(r'"[0-9a-f]{64}"', row) else "no")
                  for row in catalogue.split("    {")[1:]]
        self.assertEqual([row[1:] for row in rows], listed)
        for network, name, *_ in rows:
            self.assertIn(f"'{name}'", text)
            self.assertIn(network, networks())


if __name__ == "__main__":
    main()
