"""Cases of cases.md and hostile.md about text and paths: what leaves for people and services has no secret of a URL and no
character that forges a line; paths that only a shell would have replaced; Parquet that needs more memory than there is."""
import http.server
import json
import os
import pathlib
import pwd
import re
import resource
import subprocess
import sys
import threading

from fetch_server import FileServer
from flow import FlowTest, files_below, kiln, main
from weight_files import read_zip, torchvision_names, write_safetensors

SECRET = "geheim4711"
URL = f"https://{SECRET}u:{SECRET}p@host.example/d.csv?sig={SECRET}#{SECRET}"
MARKS = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Options that each take one of these are paths; of --weights a URL may be right.
PATH = r"^  --([a-z0-9-]+) (?:DIR|FILE|PATH|RUN|FILE\|-)\b"
ARROW = {**os.environ, "PYTHONPATH": os.environ.get("KILN_ARROW_ROOT", str(pathlib.Path(__file__).parents[2] / ".deps/arrow"))}


def commands():
    """Each command's options that take a path."""
    names = re.findall(r"^  ([a-z][a-z-]*(?: (?:init|apply))?)  ", kiln("--help").stdout, re.MULTILINE)
    return {name: re.findall(PATH, kiln(*name.split(), "--help", "all").stdout, re.MULTILINE) for name in names}


class TextTest(FlowTest):
    def assert_no_secret(self, result):
        """Neither in what was printed nor in what was left in the test's folder."""
        self.assertNotIn(SECRET, result.stdout + result.stderr)
        for name, data in files_below(self.folder).items():
            self.assertNotIn(SECRET.encode(), data, name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


class SecretsTest(TextTest):
    def test_a_url_as_a_path_of_any_command(self):
        """A1: refused, with its option, and without its secrets in whatever is printed and written."""
        seen = set()
        for command, options in commands().items():
            for option in options:
                if option in ("weights", "list-root"):  # for a part of their values a URL is right
                    continue
                seen.add((command, option))
                with self.subTest(command=command, option=option):
                    result = kiln(*command.split(), f"--{option}={URL}", cwd=self.folder)
                    self.assertIn(result.returncode, (1, 2), result.stderr)
                    self.assertNotIn("bug in kiln", result.stderr)
                    self.assertIn(f"--{option} 'https://host.example/d.csv?…'", result.stderr)
                    self.assert_no_secret(result)
        self.assertGreater(len(seen), 60, seen)
        self.assertLessEqual({("train", "data-path"), ("train", "config"), ("score", "files-from"), ("compare", "log-path"),
                              ("serve", "key-file"), ("transform apply", "data-path")}, seen)

    def test_forms_of_urls(self):
        """A1: the command line's first faults, with error_info.json and the driver log in the log folder."""
        for url in (URL, f"HTTPS://{SECRET}@h", f"https://h?sig={SECRET}", f"https://[::1]:80/a#{SECRET}",
                    f"s3://{SECRET}@bucket/a", f"abfss://{SECRET}@h/a?{SECRET}", f"azureml://a/paths/b?{SECRET}",
                    f"https://h\u00f6st/\u00e4?{SECRET}", f"https://h/a%3Fsig={SECRET}", f"https://h/a?b c\n{SECRET}",
                    f"https://u:{SECRET}/{SECRET}@h/a", f"https://u%3A{SECRET}%40h/a", f"https://h/'a'?{SECRET}",
                    f"https://h/{'x' * 300}?{SECRET}", f"https://{SECRET * 20}@h/a", f"git+ssh://{SECRET}@h/a"):
            for words in (["--data-path", url, "--epochs", url, "--epohcs", url, "--model-name", url, "--weights", url],
                          ["--weights", "a", url, "--list-root", f"{url}={self.data}"], ["--resize", url, f"--lr={url}"]):
                result = kiln("train", "--log-path", self.folder / "logs", "--trained-model-path", self.folder / "m", *words,
                              "--valid-data-path", url)
                self.assertIn(result.returncode, (1, 2), words)
                self.assertIn("Message", self.error_info())
                self.assert_no_secret(result)
        for words in (["https://h?" + SECRET], ["help", URL], ["train", "--help", URL], [f"--{URL}"], ["describe", URL]):
            self.assert_no_secret(kiln(*words, cwd=self.folder))

    def test_a_url_in_a_configuration_file(self):
        config = self.write("c.yaml", "data-path: HERE\nlog-path: logs\nepochs: HERE\nHERE: 1\n")
        text = config.read_text().replace("HERE", URL.split("#")[0])
        config.write_text(text)
        result = kiln("train", "--config", config, "--epochs", 1, cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        self.assert_names(result.stderr, "--data-path (line 1 of", "https://host.example/d.csv?…")
        config.unlink()
        self.assert_no_secret(result)

    def test_lists_of_urls(self):
        """A2: the prefix to map, which works as it is shown."""
        pictures = sorted((self.data / "train").rglob("*.*"))[:8]
        for number, beginning in enumerate((f"https://{SECRET}:{SECRET}@h/", "https://h/", f"https://h?{SECRET}/")):
            rows = [f"{beginning}{path.relative_to(self.data / 'train')}?sig={SECRET},{path.parent.name}\n" for path in pictures]
            images = self.write(f"{number}.csv", "path,label\n" + "".join(rows))
            for command in (["inspect"], ["score", "--trained-model-path", self.trained_model], ["convert"]):
                result = kiln(*command, images, *(["out"] if command == ["convert"] else []), cwd=self.folder)
                self.assertEqual(result.returncode, 1)
                self.assertNotIn(SECRET, result.stdout + result.stderr)
                self.assertIn("--list-root 'https://h", result.stderr)
            if number < 2:
                mapped = kiln("inspect", images, "--json", "--list-root", f"https://h/={self.data / 'train'}/")
                self.assertEqual(json.loads(mapped.stdout)["images"], 8, mapped.stderr)
                missing = kiln("score", images, "--trained-model-path", self.trained_model, "--output-path", "-",
                               "--list-root", f"https://h/={self.folder}/", cwd=self.folder)
                self.assertNotEqual(missing.returncode, 0)
                self.assertNotIn(SECRET, missing.stdout + missing.stderr)
            images.unlink()

    def test_a_run_that_succeeds_or_fails_later_keeps_the_secrets_it_was_given(self):
        """Weights from a URL, a list by a prefix, MLflow with a password: nothing of it is printed, in a file or uploaded."""
        write_safetensors(self.folder / "w.safetensors", torchvision_names(read_zip(self.untrained / "model")))
        weights = FileServer((self.folder / "w.safetensors").read_bytes())
        self.addCleanup(weights.stop)
        told = Tracking()
        self.addCleanup(told.stop)
        environment = {"MLFLOW_TRACKING_URI": f"http://{SECRET}:{SECRET}@127.0.0.1:{told.port}/?{SECRET}",
                       "XDG_CACHE_HOME": str(self.folder / "cache")}
        rows = [(f"https://{SECRET}@h/{path.relative_to(self.data)}?{SECRET}", path.parent.name, part)
                for part, folder in (("train", "train"), ("valid", "val")) for path in (self.data / folder).rglob("*.*")]
        images = self.write("images.csv", "path,label,split\n" + "".join(",".join(row) + "\n" for row in rows))
        words = ["train", "--data-path", images, "--list-root", f"https://{SECRET}@h/={self.data}/", "--epochs", 1, "--batch-size",
                 24, "--threads", 2, "--device", "cpu", "--model-name", "resnet18", "--weights",
                 f"{weights.url}/w.safetensors?sig={SECRET}", "--log-path", "logs", "--trained-model-path", "model",
                 "--checkpoint-path", "checkpoints"]
        good = kiln(*words, cwd=self.folder, environment=environment)
        self.assertEqual(good.returncode, 0, good.stderr)
        bad = kiln(*words, "--learning-rate", 1e30, "--resume", "never", cwd=self.folder, environment=environment)
        self.assertNotEqual(bad.returncode, 0)
        images.unlink()
        self.assert_no_secret(good)
        self.assert_no_secret(bad)
        self.assertGreater(len(told.bodies), 5)
        for path, body in told.bodies:
            self.assertNotIn(SECRET.encode(), body, path)


class Tracking:
    """Takes whatever is told to it as an MLflow server."""

    def __init__(self):
        self.bodies = bodies = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                bodies.append((self.path, self.rfile.read(int(self.headers.get("Content-Length", 0)))))
                info = {"run_id": "r", "experiment_id": "1", "artifact_uri": "mlflow-artifacts:/1/r/artifacts"}
                body = json.dumps({"experiment": {"experiment_id": "1"}, "experiment_id": "1", "run": {"info": info}}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_PATCH = do_GET

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.http.server_port
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()


class CharactersTest(TextTest):
    def test_marks_that_end_or_turn_a_line_are_escaped(self):
        """A15"""
        for word in (f"x{MARKS}png", f"--data-path={MARKS}", f"--lr={MARKS}"):
            result = kiln("train", word, "--log-path", self.folder / "logs")
            self.assertIn("\\xe2\\x80\\xa8", result.stderr)
            for text in (result.stderr, self.error_info()["Message"]):
                self.assertFalse(set(text) & set(MARKS), ascii(text))

    def test_classes_that_differ_only_in_marks_look_alike(self):
        """A15: told, and the labels themselves stay what they are."""
        pictures = sorted((self.data / "train").rglob("*.*"))[:8]
        for number, path in enumerate(pictures):
            folder = self.folder / "images" / ("a" if number % 2 else "a\u202e")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / path.name).write_bytes(path.read_bytes())
        report = kiln("inspect", self.folder / "images", "--json")
        self.assertEqual({row["name"] for row in json.loads(report.stdout)["classes"]}, {"a", "a\u202e"})
        self.assertIn("\\u202e", json.loads(report.stdout)["notes"][0])
        self.assertFalse(set(kiln("inspect", self.folder / "images").stdout) & set(MARKS))

    def test_names_of_categories_have_no_control_characters(self):
        """A14: COCO as lists do; of ClassLabel in ParquetTest."""
        coco = self.write_coco()
        labels = coco / "labels.json"
        for name in ("\x1b[31mred", "b\nc"):
            content = json.loads(labels.read_text())
            content["categories"][0]["name"] = name
            labels.write_text(json.dumps(content))
            self.assert_refused(kiln("inspect", coco), 1, "labels.json")

    def test_a_card_of_a_model_that_was_tampered_with(self):
        """A17"""
        model = self.folder / "model"
        model.mkdir()
        for path in self.trained_model.iterdir():
            (model / path.name).write_bytes(path.read_bytes())
        record = json.loads((model / "training.json").read_text())
        record["versions"]["kiln"] = f"\x1b[31m \u202e {URL}"
        (model / "training.json").write_text(json.dumps(record))
        made = kiln("export", "--trained-model-path", model, "--output-path", self.folder / "x.onnx")
        self.assertEqual(made.returncode, 0, made.stderr)
        card = next(self.folder.glob("x*.md")).read_text()
        self.assertIn("host.example", card)
        for secret in ("\x1b", "\u202e", SECRET):
            self.assertNotIn(secret, card)

    def test_long_words_are_cut(self):
        """C8"""
        weights = self.folder / "w.safetensors"
        write_safetensors(weights, torchvision_names(read_zip(self.untrained / "model")))
        for part in ("x" * 100_000, "x y " * 25_000):
            result = kiln("init-model", "resnet18", "--untrained-model-path", self.folder / "u", "--weights", f"{weights}#{part}")
            self.assertEqual(result.returncode, 1)
            self.assertLess(len(result.stderr), 2000)

    def test_json_is_one_for_programs(self):
        """Lines of JSON are neither cut nor escaped as text."""
        label = "x\u2028" + "y" * 200
        images = self.write("l.csv", "path,label\n" + "".join(
            f"{path},{label if number % 2 else 'b'}\n" for number, path in enumerate(sorted((self.data / "train").rglob("*.*"))[:6])))
        report = kiln("inspect", images, "--json")
        self.assertIn(label, [row["name"] for row in json.loads(report.stdout)["classes"]])


class HomeTest(TextTest):
    """Case 102."""

    def kiln(self, *words, **environment):
        return kiln(*words, cwd=self.folder, environment={"HOME": str(self.shared_folder), **environment})

    def test_the_home_folder_in_every_option_and_file(self):
        for words in (["~/data/train"], ["--path=~/data/train"], ["--path", "~/data/../data/train"], ["~/data/train/"]):
            self.assertEqual(self.kiln("inspect", *words).returncode, 0, words)
        self.write("list.txt", "".join(f"{path}\n" for path in (self.data / "val").rglob("*.*")))
        here = {"HOME": str(self.folder)}
        scored = self.kiln("score", f"--trained-model-path={self.trained_model}", "--files-from=~/list.txt",
                           "--output-path=~/scores.csv", **here)
        self.assertEqual(scored.returncode, 0, scored.stderr)
        self.assertTrue((self.folder / "scores.csv").exists())
        self.write("c.yaml", "data-path: ~/data\nepochs: 1\nmodel-name: resnet18\n")
        config = self.kiln("train", f"--config=~/{os.path.relpath(self.folder / 'c.yaml', self.shared_folder)}", "--epochs", 0)
        self.assert_refused(config, 1, "--epochs")
        rows = "".join(f"s3://b/{path.relative_to(self.data)},{path.parent.name}\n" for path in (self.data / "val").rglob("*.*"))
        self.write("l.csv", "path,label\n" + rows)
        self.assertEqual(self.kiln("inspect", "l.csv", "--list-root=s3://b/=~/data").returncode, 0)
        self.assertEqual([name for name in files_below(self.folder) if "~" in name], [])

    def test_the_home_folder_of_the_system(self):
        home = pwd.getpwuid(os.getuid()).pw_dir
        result = subprocess.run([os.environ.get("KILN", "kiln"), "inspect", "~/no-such-file"], capture_output=True, text=True,
                                env={name: value for name, value in os.environ.items() if name != "HOME"})
        self.assertIn(f"{home}/no-such-file", result.stderr)
        self.assert_refused(kiln("inspect", "~", environment={"HOME": "/no/such/home"}), 1, "/no/such/home")

    def test_what_only_a_shell_replaces_is_refused_with_the_path_to_type(self):
        for text, path in ((f"~{pwd.getpwuid(os.getuid()).pw_name}/x", f"{pwd.getpwuid(os.getuid()).pw_dir}/x"),
                           ("$KILN_X/a b", "'/some/where/a b'"), ("${KILN_X}/x", "/some/where/x"), ("$KILN_X", "/some/where")):
            for words in (["train", text], ["train", f"--trained-model-path={text}"], ["split", f"--output-path={text}"],
                          ["score", f"--files-from={text}"], ["train", f"--config={text}"],
                          ["inspect", "l.csv", f"--list-root=s3://b/={text}"]):
                with self.subTest(words=words):
                    self.assert_refused(self.kiln(*words, KILN_X="/some/where"), 2, f"'{text}'", path)
        config = self.write("c.yaml", "trained-model-path: $KILN_X/m\n")
        self.assert_refused(self.kiln("train", "--config", config, KILN_X="/some/where"), 2, "line 1", "/some/where/m")
        for text in ("~no-such-user/x", "$KILN_NOT_SET/x"):
            self.assert_refused(self.kiln("train", text), 2, f"'{text}'", f"'./{text}'")
        secret = self.kiln("train", "$KILN_X/x", KILN_X=SECRET)
        self.assert_refused(secret, 2, "$KILN_X")
        self.assertNotIn(SECRET, secret.stderr)

    def test_a_path_that_is_there_is_taken(self):
        for name in ("$KILN_X", "~root", "${HOME}", "~x", "$1"):
            (self.folder / name).symlink_to(self.data)
            for path in (f"{name}/train", f"./{name}/train"):
                self.assertEqual(self.kiln("inspect", path).returncode, 0, path)
        url = self.folder / "https:/host.example"
        url.mkdir(parents=True)
        (url / "d").symlink_to(self.data / "train")
        self.assertEqual(self.kiln("inspect", "https://host.example/d").returncode, 0)


class ParquetTest(TextTest):
    def write_parquet(self, name, code, **settings):
        """`code` makes the columns of a table."""
        script = ("import pyarrow as pa, pyarrow.parquet as pq, json, sys\n"
                  f"t = pa.table({code})\nif len(sys.argv) > 2:\n"
                  "    t = t.replace_schema_metadata({'huggingface': sys.argv[2]})\n"
                  f"pq.write_table(t, sys.argv[1], compression='zstd', {settings.pop('how', '')})\n")
        path = self.folder / name
        made = subprocess.run([sys.executable, "-c", script, path, *settings.pop("metadata", [])], capture_output=True, text=True,
                              env=ARROW)
        if "No module named" in made.stderr:
            self.skipTest("pyarrow is not installed")
        self.assertEqual(made.returncode, 0, made.stderr)
        return path

    def test_texts_too_large_to_be_paths_and_labels_are_refused_by_the_footer(self):
        """A10: 100 MB of a label are not read."""
        path = self.write_parquet("a.parquet", "{'path': ['0.png', '1.png'], 'label': ['x' * 100_000_000, 'a']}",
                                  how="use_dictionary=False, write_statistics=False")
        self.assert_refused(kiln("inspect", path), 1, "100 MB", "'label'")

    def test_too_little_memory_is_no_broken_file(self):
        """A9: exit code 3, with the size; and B9: no gigabyte of addresses is taken at once."""
        path = self.write_parquet(
            "b.parquet", "{'image': [{'bytes': b'\\x89PNG' + bytes(2_000_000), 'path': None}] * 300, 'label': ['a', 'b'] * 150}",
            how="use_dictionary=False, write_statistics=False, data_page_size=1 << 30")
        limit = 1100 << 20
        result = kiln("inspect", path, preexec=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assert_refused(result, 3, "600 MB", "row groups")

    def test_names_of_class_label(self):
        """A11: counted first; A14: without control characters."""
        for names, words in (([f"c{number}" for number in range(200_000)], ["100000"]),
                             (["a", "b\nc"], ["ClassLabel"]), (["a", "a"], ["ClassLabel"]), ([f"c{i}" for i in range(90_000)], None)):
            about = json.dumps({"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}})
            # Of 200,000 names a word would be too long.
            about_file = self.write("about.json", about)
            path = self.write_parquet("c.parquet", "{'path': %r, 'label': [0, 1]}" % [str(p) for p in list(
                (self.data / "val").rglob("*.*"))[:2]] + f").replace_schema_metadata({{'huggingface': open({str(about_file)!r}).read()}}")
            result = kiln("inspect", path)
            if words:
                self.assert_refused(result, 1, *words)
            else:
                self.assertEqual(result.returncode, 0, result.stderr)


class WordsTest(TextTest):
    def test_one_number_is_used(self):
        """A19"""
        rows = "".join(f"{path},3\n" for path in list((self.data / "val").rglob("*.*"))[:3])
        report = kiln("inspect", self.write("l.csv", "path,label\n" + rows), "--json")
        note = next(note for note in json.loads(report.stdout)["notes"] if "3 to 3" in note)
        self.assertIn("of which 1 is used", note)


if __name__ == "__main__":
    main()
