"""Paths in buckets: what is copied from a real S3 server that serves well and badly, and from an emulator of Google's."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from bucket_server import PACKAGES, GoogleServer, S3Server, refusal
from flow import KILN, FlowTest, files_below, kiln, main, noise, png, start_until

PICTURE, OTHER = (png(noise(random.Random(seed))) for seed in (1, 2))
READERS = 32


class BucketTest(FlowTest):
    def setUp(self):
        super().setUp()
        self.server = S3Server()
        self.addCleanup(self.server.stop)
        self.cache = self.folder / "cache"

    def put_photos(self, count=4):
        self.server.put("photos", **{f"all/{name}/{i}.png": PICTURE for name in ("cats", "dogs") for i in range(count)})

    def environment(self, **more):
        return {**self.server.environment, "XDG_CACHE_HOME": str(self.folder / "home"), **more}

    def copy(self, url="s3://photos/all", *words, **environment):
        """Copies a bucket, with the command that does the least beside."""
        words = words or ("--cache-path", self.cache)
        return kiln("inspect", url, "--check", "--json", *words, environment=self.environment(**environment))

    def copied(self):
        """The files of the only copy."""
        roots = [path for path in self.cache.iterdir() if path.is_dir()]
        self.assertEqual(len(roots), 1)
        return {name: (roots[0] / name).read_bytes() for name in files_below(roots[0])}

    def assert_copied(self, result, files, *read):
        """The copy has these files, and these objects were read for it."""
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.copied(), files)
        self.assertEqual(self.server.read(), sorted(read))

    def assert_unreadable(self, result, *words):
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assert_names(result.stderr, "error: ", *words)
        self.assertNotIn("geheim", result.stdout + result.stderr)

    # ---- commands ----

    def test_training_from_a_bucket_is_training_from_the_folder(self):
        for part in ("train", "val"):
            self.server.put_folder("photos", f"my data/{part}", self.data / part)
        words = self.train_arguments(train_data_path="s3://photos/my data/train", valid_data_path="s3://photos/my data/val/",
                                     cache_path=self.cache)
        result = subprocess.run([KILN, *words], capture_output=True, text=True, env={**os.environ, **self.environment()})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.train(trained_model_path=self.folder / "other", log_path=self.folder / "logs2").returncode, 0)
        self.assertEqual((self.folder / "model/model.safetensors").read_bytes(),
                         (self.folder / "other/model.safetensors").read_bytes())
        again = (self.folder / "logs/repeat.yaml").read_text()
        self.assert_names(again, "s3://photos/my data/train")
        # The model goes back into the bucket, and answers from there.
        self.server.put_folder("photos", "model", self.folder / "model")
        self.server.put("photos", **{"one.png": next((self.data / "val").rglob("*.png")).read_bytes()})
        result = kiln("score", "s3://photos/one.png", "--trained-model-path", "s3://photos/model", "--json",
                      environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("confidence", json.loads(result.stdout.splitlines()[0]))
        self.assertEqual(len(list((self.folder / "home/kiln/buckets").glob("*.lock"))), 2)

    def test_ranks_share_one_copy(self):
        for part in ("train", "val"):
            self.server.put_folder("photos", part, self.data / part)
        words = self.train_arguments(train_data_path="s3://photos/train", valid_data_path="s3://photos/val",
                                     cache_path=self.cache, batch_size=12)
        result = subprocess.run([KILN, "launch", "--ranks", "2", "--", *words], capture_output=True, text=True,
                                env={**os.environ, **self.environment()})
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        keys = self.server.read()
        self.assertEqual((len(keys), len(set(keys))), (len(files_below(self.data)),) * 2)

    def test_inspect_alone_lists(self):
        self.put_photos()
        result = kiln("inspect", "s3://photos/all", "--json", environment=self.environment())
        self.assertEqual(result.returncode, 0, result.stderr)
        listed = json.loads(result.stdout)
        self.assertEqual((listed["objects"], listed["bytes"]), (8, 8 * len(PICTURE)))
        self.assertEqual([row["folder"] for row in listed["folders"]], ["cats", "dogs"])
        self.assertEqual(self.server.read(), [])
        self.assertFalse((self.folder / "home").exists())

    def test_what_a_command_line_may_not_say(self):
        for words, told in ((("--output-path", "s3://b/x y"), "aws s3 cp --recursive FOLDER 's3://b/x y'"),
                            (("--output-path", "gs://b/x"), "gcloud storage cp"),
                            (("--output-path", "abfss://c@a.dfs.core.windows.net/x"), "azcopy copy")):
            self.assert_refused(kiln("convert", "--data-path", self.data / "train", *words), 2, "--output-path", told)
        for url in ("s3://user:geheim@b/x", "s3://b/x?key=geheim", "s3://b/x#geheim", "abfss://c:geheim@a.dfs.core.windows.net/x",
                    "s3://", "s3://b/a/../x", "s3://b/a//x", "abfss://a.dfs.core.windows.net"):
            result = kiln("inspect", url)
            self.assert_refused(result, 2, "--path")
            self.assertNotIn("geheim", result.stdout + result.stderr)

    def test_a_list_of_objects(self):
        self.put_photos(2)
        table = self.folder / "list.csv"
        table.write_text("path,label\n" + "".join(f"s3://photos/all/{name}/{i}.png,{name}\n" for name in ("cats", "dogs")
                                                  for i in range(2)))
        self.assert_refused(kiln("inspect", table), 1, "4 paths begin with 's3://photos/'",
                            "--list-root 's3://photos/PATH/=s3://photos/PATH/'")
        for root in ("s3://photos/all/=s3://photos/all/", f"{self.data}/=/,s3://photos/=s3://photos"):
            result = self.copy(table, "--list-root", root, "--cache-path", self.cache)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(json.loads(result.stdout)["images"], 4)
        table.write_text("path,label\ncats/0.png,cats\ndogs/1.png,dogs\n")
        result = kiln("inspect", table, "--list-root", "s3://photos/all", "--json", environment=self.environment())
        self.assertEqual(json.loads(result.stdout)["images"], 2, result.stderr)

    # ---- the copy ----

    def test_what_changed_is_fetched_and_what_is_gone_is_gone(self):
        self.server.put("photos", **{"all/a/1.png": PICTURE, "all/a/2.png": PICTURE, "all/b/c/3.png": PICTURE})
        files = {"all/a/1.png": PICTURE, "all/a/2.png": PICTURE, "all/b/c/3.png": PICTURE}
        self.assert_copied(self.copy(), files, *files)
        self.assert_copied(self.copy(), files)
        time.sleep(1)  # S3 has seconds
        self.server.put("photos", **{"all/a/2.png": OTHER, "all/b": PICTURE, "all/d/4.png": OTHER})
        self.server.remove("photos", "all/b/c/3.png")
        files = {"all/a/1.png": PICTURE, "all/a/2.png": OTHER, "all/b": PICTURE, "all/d/4.png": OTHER}
        self.assert_copied(self.copy(), files, "all/a/2.png", "all/b", "all/d/4.png")
        next(self.cache.glob("*/all/a/1.png")).write_bytes(PICTURE[:-1])
        self.assert_copied(self.copy(), files, "all/a/1.png")

    def test_an_object_may_become_a_folder(self):
        self.server.put("photos", **{"all": PICTURE})
        self.assert_copied(self.copy(), {"all": PICTURE}, "all")
        self.server.remove("photos", "all")
        self.put_photos(1)
        self.assert_copied(self.copy(), {f"all/{name}/0.png": PICTURE for name in ("cats", "dogs")},
                           "all/cats/0.png", "all/dogs/0.png")

    def test_a_killed_copy_goes_on(self):
        self.put_photos(2 * READERS)
        reading = threading.Semaphore(READERS)  # so many come
        self.server.misbehave = lambda method, key: reading.acquire(timeout=20) and None if method == "GET" and key else None
        process = start_until(self, "Copying", [KILN, "inspect", "s3://photos/all", "--check", "--cache-path", self.cache],
                              env={**os.environ, **self.environment()})
        while len(list(self.cache.glob("*/all/*/[0-9]*.png"))) < READERS:
            self.assertIsNone(process.poll())
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.server.misbehave = lambda method, key: None
        for _ in range(4 * READERS):
            reading.release()
        time.sleep(0.5)
        self.server.read()
        result = self.copy()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(len(self.copied()), 4 * READERS)  # and no temporary ones
        self.assertEqual(len(self.server.read()), 3 * READERS)

    def test_two_at_once_fetch_once(self):
        self.put_photos()
        self.server.misbehave = lambda method, key: time.sleep(1) if method == "GET" and key else None
        words = [KILN, "inspect", "s3://photos/all", "--check", "--cache-path", self.cache]
        both = [subprocess.Popen(words, env={**os.environ, **self.environment()}, stdout=subprocess.PIPE, text=True)
                for _ in range(2)]
        texts = [process.communicate(timeout=60)[0] for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], texts)
        self.assertEqual(len(self.server.read()), 8)
        self.assertEqual(sum("Waiting for another process" in text for text in texts), 1)

    def test_names_that_no_file_has(self):
        good = {"all/a b/1 2.png": PICTURE, "all/a%20b/1%2F2+3.png": PICTURE, "all/ü/'1'.png": PICTURE}
        odd = ("all/a//1.png", "all/../1.png", "all/./1.png", "all/a b", f"all/{'n' * 256}/1.png")
        self.server.put("photos", **good, **{name: OTHER for name in odd})
        result = self.copy()
        self.assert_copied(result, good, *good)
        self.assert_names(result.stdout + result.stderr, "'../1.png'", "'./1.png'", "2 more")
        self.assertEqual([path.name for path in self.folder.rglob("1.png")], [])
        shutil.rmtree(self.cache)
        self.assert_copied(self.copy("s3://photos/all/a%20b/1%2F2+3.png"), {"1%2F2+3.png": PICTURE}, "all/a%20b/1%2F2+3.png")

    # ---- servers that fail ----

    def test_objects_that_change_meanwhile(self):
        self.put_photos(1)
        broken = {"all/cats/0.png"}

        def once(change):
            def misbehave(method, key):
                if method == "GET" and key in broken:
                    broken.clear()
                    return change(key)
                return None
            return misbehave

        def gone(key):
            self.server.remove("photos", key)

        def other(key):
            self.server.put("photos", **{key: OTHER + b"more"})
        for change in (gone, other, lambda key: (200, {"Content-Length": "1"}, b"x"),
                       lambda key: (200, {}, b"x" * len(PICTURE)), lambda key: refusal(503, "SlowDown")):
            broken = {"all/cats/0.png"}
            self.put_photos(1)
            shutil.rmtree(self.cache, ignore_errors=True)
            self.server.misbehave = once(change)
            result = self.copy()
            files = {"all/dogs/0.png": PICTURE, **({} if change is gone else
                                                   {"all/cats/0.png": OTHER + b"more" if change is other else PICTURE})}
            self.assertEqual((result.returncode, self.copied()), (0, files), result.stdout + result.stderr)

    def test_bytes_that_disagree_with_their_md5(self):
        self.put_photos(1)
        number = iter(range(100))
        self.server.misbehave = lambda method, key: None if method != "GET" or not key else (
            200, {}, bytes([next(number)]) * len(PICTURE))
        self.assert_unreadable(self.copy(), "s3://photos/all", ".png")
        self.assertEqual(self.copied(), {})
        # Bytes that come twice are right, and the tag is no MD5, as of objects that are encrypted with a key.
        self.server.misbehave = lambda method, key: (200, {}, OTHER[:len(PICTURE)].ljust(len(PICTURE))) if (
            method == "GET" and key) else None
        self.copy()
        self.assertEqual(sorted(self.copied()), ["all/cats/0.png", "all/dogs/0.png"])

    def test_refusals(self):
        self.put_photos(1)
        self.assert_unreadable(self.copy("s3://none/all"), "s3://none/all")
        self.assert_unreadable(self.copy("s3://photos/none"), "s3://photos/none")
        self.server.misbehave = lambda method, key: refusal(403, "InvalidAccessKeyId")
        self.assert_unreadable(self.copy(), "s3://photos/all", "ACCESS_DENIED")
        self.server.misbehave = lambda method, key: refusal(403, "AccessDenied") if key.endswith("0.png") else None
        self.assert_unreadable(self.copy(), "s3://photos/all", "ACCESS_DENIED")
        self.server.misbehave = lambda method, key: refusal(301, "PermanentRedirect", **{"x-amz-bucket-region": "eu-west-1"})
        self.assert_unreadable(self.copy(), "s3://photos/all", "eu-west-1")

    def test_no_credentials_and_no_home(self):
        self.put_photos(1)
        result = self.copy(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
        self.assert_unreadable(result, "ACCESS_DENIED")
        from moto.s3.models import FakeAcl, FakeGrant, FakeGrantee
        everyone = FakeGrantee(uri="http://acs.amazonaws.com/groups/global/AllUsers")
        for key in ("all/cats/0.png", "all/dogs/0.png"):
            self.server.bucket("photos").get_object("photos", key).set_acl(FakeAcl([FakeGrant([everyone], ["READ"])]))
        self.server.bucket("photos").put_bucket_acl("photos", FakeAcl([FakeGrant([everyone], ["READ"])]))
        self.assertEqual(self.copy(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="").returncode, 0)
        result = kiln("inspect", "s3://photos/all", "--check", environment=self.environment(XDG_CACHE_HOME="", HOME=""))
        self.assert_refused(result, 3, "error: ", "--cache-path")

    def test_without_room(self):
        self.server.put("photos", **{"all/1.bin": b"x" * 3_000_000})
        self.cache.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(self.cache)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", str(self.cache)])
        self.assert_refused(self.copy(), 3, "error: ", "3 MB", "are free", "--cache-path")
        self.assertEqual(self.server.read(), [])

    def test_without_the_module(self):
        parts = pathlib.Path(KILN).parent
        program = self.folder / "program"
        program.mkdir()
        for name in ("kiln", "libkiln.so"):
            shutil.copy(parts / name, program / name)
        result = subprocess.run([program / "kiln", "inspect", "s3://photos/all"], capture_output=True, text=True,
                                env={**os.environ, **self.environment()})
        self.assertNotEqual(result.returncode, 0)
        self.assert_names(result.stderr, "pip install 'kiln-trainer[parquet]'")

    def test_100000_objects_need_little_memory(self):
        if os.environ.get("KILN_NIGHTLY") != "1":
            self.skipTest("only with KILN_NIGHTLY=1")
        self.server.put("photos", **{f"all/class {i % 100}/photo-{i:06}.jpg": b"" for i in range(100_000)})
        peaks = {}
        for url, count in (("s3://photos/all/class 1", 1000), ("s3://photos/all", 100_000)):
            process = subprocess.Popen([KILN, "inspect", url, "--json"], stdout=subprocess.PIPE,
                                       env={**os.environ, **self.environment()})
            self.addCleanup(process.stdout.close)
            listed = json.loads(process.stdout.read())
            peaks[count] = os.wait4(process.pid, 0)[2].ru_maxrss
            self.assertEqual(listed["objects"], count)
        print(f"memory: {peaks} kB")
        self.assertLess(peaks[100_000] - peaks[1000], 200_000)

    # ---- another cloud ----

    def test_google(self):
        google = GoogleServer(self.folder)
        self.addCleanup(google.stop)
        files = {"all/cats/1 2.png": PICTURE, "all/dogs/1.png": OTHER}
        for key, content in files.items():
            google.put(key, content)
        for _ in range(2):
            result = self.copy("gs://photos/all", **google.environment)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual(self.copied(), files)
        self.assert_unreadable(self.copy("gs://photos/none", **google.environment), "gs://photos/none")


if __name__ == "__main__":
    if not PACKAGES[0].is_dir():
        print("SKIPPED: no server of buckets in .deps/buckets (environment/install.sh)")
        sys.exit(77)
    main()
