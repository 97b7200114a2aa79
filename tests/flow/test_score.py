"""`kiln score`: a trained model's answers, from folders, lists and single images to rows of a file."""
import csv
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from browser import BrowserCase
from flow import KILN, FlowTest, become_nobody, explanations, files_below, kiln, main

DEPS = pathlib.Path(__file__).parents[2] / ".deps"
ARROW = {**os.environ, "PYTHONPATH": f"{os.environ.get('KILN_ARROW_ROOT', DEPS / 'arrow')}:{DEPS / 'parity'}"}


class Scored(FlowTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="kiln-score-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.model = cls.trained_model

    def words(self, *options, model=None, data=None, output="scores.csv"):
        words = [KILN, "score", "--trained-model-path", model or self.model, "--device", "cpu", *options]
        words += [] if data is None else ["--data-path", data]
        words += [] if output is None else ["--output-path", self.folder / output]
        return [str(word) for word in words]

    def score(self, *options, **places):
        return subprocess.run(self.words(*options, **places), capture_output=True, text=True, timeout=300, cwd=self.folder)

    def rows(self, *options, **places):
        """The rows of the CSV file, once the program has written it."""
        result = self.score(*options, **places)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.folder / "scores.csv", newline="") as file:
            return list(csv.DictReader(file))


class ScoreTest(Scored):
    def names(self, folder):
        return sorted(files_below(folder))

    def assert_explained(self, folder, rows):
        """`folder` holds a picture of each of these rows and nothing more, in any order."""
        self.assertEqual(sorted((row["path"], row["label"], row["confidence"]) for row in explanations(self, folder)),
                         sorted((row["path"], row["label"] or row["guess"], row["confidence"]) for row in rows))

    def assert_nothing_written(self):
        self.assertEqual([path.name for path in self.folder.glob("scores*")], [])

    def test_scores_are_those_of_validation(self):
        rows = self.rows("--all-classes", "--top-k", 3, data=self.data / "val")
        self.assertEqual([row["path"] for row in rows], self.names(self.data / "val"))
        training = json.loads((self.model / "training.json").read_text())
        saved = next(epoch for epoch in training["epochs"] if epoch["epoch"] == training["saved_epoch"])
        self.assertEqual(sum(row["label"] == row["true_label"] for row in rows) / len(rows), saved["top1"])
        classes = sorted(path.name for path in (self.data / "val").iterdir())
        for row in rows:
            self.assertEqual(row["true_label"], row["path"].split("/")[0])
            probabilities = {name: float(row["probability_" + name]) for name in classes}
            self.assertAlmostEqual(sum(probabilities.values()), 1, places=5)
            best = sorted(classes, key=lambda name: -probabilities[name])
            self.assertEqual([row["label"], row["label_2"], row["label_3"]], best)
            self.assertEqual(float(row["confidence_2"]), probabilities[best[1]])
            self.assertEqual(row["fault"], "")

    def test_jsonl_holds_what_csv_does(self):
        rows = self.rows(data=self.data / "val")
        result = self.score(data=self.data / "val", output="scores.jsonl")
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in (self.folder / "scores.jsonl").read_text().splitlines()]
        self.assertEqual([{**line, "confidence": str(line["confidence"]), "fault": line["fault"] or ""} for line in lines],
                         [{**row, "confidence": str(float(row["confidence"]))} for row in rows])

    def pyarrow(self):
        """Arrow's own reader, from where the build found the library."""
        found = subprocess.run([sys.executable, "-c", "import pyarrow.parquet"], capture_output=True, text=True, env=ARROW)
        if found.returncode != 0:
            self.skipTest("pyarrow is not installed: " + found.stderr.strip().splitlines()[-1])

    def table(self, path):
        """Columns, rows, and the keys of the file's metadata, as pyarrow reads them."""
        self.pyarrow()
        program = ("import json, sys, pyarrow.parquet as parquet; file = parquet.ParquetFile(sys.argv[1]); table = file.read(); "
                   "print(json.dumps([[[field.name, str(field.type)] for field in table.schema], table.to_pylist(), "
                   "[key.decode() for key in file.metadata.metadata]]))")
        return json.loads(subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True,
                                         env=ARROW).stdout)

    def test_parquet_holds_what_jsonl_does(self):
        for output in ("scores.jsonl", "scores.parquet"):
            result = self.score("--top-k", 2, data=self.data / "val", output=output)
            self.assertEqual(result.returncode, 0, result.stderr)
        lines = [json.loads(line) for line in (self.folder / "scores.jsonl").read_text().splitlines()]
        columns, rows, _ = self.table(self.folder / "scores.parquet")
        self.assertEqual([name for name, _ in columns], list(lines[0]))
        self.assertEqual({kind for name, kind in columns if name.startswith("confidence")}, {"double"})
        for line, row in zip(lines, rows, strict=True):
            for name, value in line.items():
                self.assertAlmostEqual(value, row[name], places=6) if isinstance(value, float) else \
                    self.assertEqual(value, row[name])

    def test_a_scored_dataset_is_the_designers(self):
        broken = self.folder / "val"
        shutil.copytree(self.data / "val", broken)
        names = self.names(broken)
        (broken / names[0]).write_bytes(b"no image")
        result = self.score("--scored-dataset", self.folder / "scored", "--max-bad-images", 1, data=broken, output=None)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "")
        scored = self.folder / "scored"
        self.assertEqual(set(files_below(scored)),
                         {"_meta.yaml", "_data.parquet", "_samples.json", "_data.visualization", "schema/_schema.json"})
        columns, rows, keys = self.table(scored / "_data.parquet")
        classes = sorted(path.name for path in broken.iterdir())
        probabilities = [f"Scored Probabilities_{name}" for name in classes]
        self.assertEqual([name for name, _ in columns], ["category", "id", *probabilities, "Scored Labels"])
        self.assertEqual({name: kind for name, kind in columns}["id"], "int64")
        self.assertIn("pandas", keys)
        self.assertEqual([row["category"] for row in rows], [name.split("/")[0] for name in names[1:]])
        for row in rows:
            self.assertAlmostEqual(sum(row[name] for name in probabilities), 1, places=5)
            self.assertEqual(row["Scored Labels"], max(classes, key=lambda name: row[f"Scored Probabilities_{name}"]))
        schema = json.loads((scored / "schema/_schema.json").read_text())
        self.assertEqual([column["name"] for column in schema["columnAttributes"]], [name for name, _ in columns])
        self.assertEqual(schema["labelColumns"], {"True Labels": "category"})
        self.assertEqual(json.loads((scored / "_samples.json").read_text()), rows[:3])
        again = self.score("--scored-dataset", scored, data=self.data / "val", output=None)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(len(self.table(scored / "_data.parquet")[1]), len(names))
        other = self.score("--scored-dataset", self.model, data=self.data / "val", output=None)
        self.assert_refused(other, 3, "--scored-dataset")

    def test_below_a_confidence_there_is_no_answer(self):
        plain = self.rows(data=self.data / "val")
        least = sorted(float(row["confidence"]) for row in plain)[len(plain) // 2]
        shown = self.folder / "answers.html"
        rows = self.rows("--min-confidence", least, "--explain", self.folder / "explained", "--page", shown, data=self.data / "val")
        page = shown.read_text()
        self.assertIn(f'id="images" value="{len(rows)}"', page)
        self.assertIn(f'id="unsure" value="{sum(row["label"] == "" for row in rows)}"', page)
        self.assertEqual(page.count("<figure data-file"), len(rows))
        self.assertEqual(page.count('data-kinds="unsure"'), sum(row["label"] == "" for row in rows))
        self.assertEqual(page.count("<img"), len(rows))
        for row, before in zip(rows, plain, strict=True):
            sure = float(before["confidence"]) >= least
            self.assertEqual((row["label"], row["guess"]), (before["label"], "") if sure else ("", before["label"]))
        self.assert_explained(self.folder / "explained", [row for row in rows if row["label"] != row["true_label"]])
        raw = self.rows("--raw", data=self.data / "val")
        self.assertEqual([row["label"] for row in raw], [row["label"] for row in plain])
        self.assertNotEqual([row["confidence"] for row in raw], [row["confidence"] for row in plain])

    def test_answers_that_are_right_as_often_as_asked(self):
        """On the validation images, of which the threshold was found."""
        answered = [row for row in self.rows("--answer-at", "10%", data=self.data / "val") if row["label"]]
        self.assertGreaterEqual(sum(row["label"] == row["true_label"] for row in answered) / len(answered), 0.1)
        (self.folder / "scores.csv").unlink()
        copy = self.folder / "model"
        shutil.copytree(self.model, copy)
        (copy / "calibration.json").unlink()
        result = self.score("--answer-at", "0.4", model=copy, data=self.data / "val")
        self.assert_refused(result, 1, "calibration.json")
        self.assert_nothing_written()

    def test_unlabeled_images_at_any_depth_and_bad_ones(self):
        photos = self.folder / "photos"
        images = [self.data / "val" / name for name in self.names(self.data / "val")]
        for name, source in zip(("a.png", "2023/b.png", "2023/may/c.png"), images):
            (photos / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, photos / name)
        (photos / "2023/bad.png").write_bytes(b"no image")
        rows = self.rows("--max-bad-images", 1, data=photos)
        self.assertEqual(list(rows[0]), ["path", "label", "confidence", "fault"])
        self.assertEqual([row["path"] for row in rows], ["a.png", "2023/b.png", "2023/bad.png", "2023/may/c.png"])
        self.assertEqual([bool(row["label"]) for row in rows], [True, True, False, True])
        self.assertEqual([bool(row["fault"]) for row in rows], [False, False, True, False])

        (photos / "bad too.png").write_bytes(b"no image either")
        (self.folder / "scores.csv").unlink()
        refused = self.score("--max-bad-images", 1, data=photos)
        self.assert_refused(refused, 1, "2023/bad.png", "bad too.png", "--max-bad-images")
        with open(self.folder / "scores.csv", newline="") as file:
            self.assertEqual(sum(bool(row["fault"]) for row in csv.DictReader(file)), 2)

    def test_a_single_image_prints_an_answer(self):
        image = next((self.data / "val").rglob("*.png"))
        result = self.score(data=image, output=None)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, rf"\A{image.name}: \w+ \d+\.\d %, \w+ \d+\.\d %, \w+ \d+\.\d %\n\Z")

    def test_a_list_of_paths(self):
        names = self.names(self.data / "val")[:3]
        (self.folder / "list.txt").write_text("\n".join([names[2], names[0], "missing.png"]))
        explained = self.folder / "explained"
        explained.mkdir()
        (explained / "explanations.csv").write_bytes(b"path,label,confidence,file\r\na.png,circle,0.5,009-a.jpg\r\n")
        (explained / "009-a.jpg").touch()
        rows = self.rows("--files-from", "list.txt", "--max-bad-images", "50%", "--explain", explained, data=self.data / "val")
        self.assertEqual([row["path"] for row in rows], [names[2], names[0], "missing.png"])
        self.assertEqual([bool(row["fault"]) for row in rows], [False, False, True])
        self.assert_explained(explained, rows[:2])

    def test_a_reader_that_leaves(self):
        """Of a pipe: the program says so and ends, while its own list goes on."""
        process = subprocess.Popen(self.words("--files-from", "-", output=None), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        image = next((self.data / "val").rglob("*.png"))

        def feed():
            try:
                while process.poll() is None:
                    process.stdin.write(f"{image}\n")
                    process.stdin.flush()
            except BrokenPipeError:
                pass

        feeder = threading.Thread(target=feed)
        feeder.start()
        self.assertIn(image.name, process.stdout.readline())
        process.stdout.close()
        error = process.stderr.read()
        self.assertEqual(process.wait(timeout=30), 3, error)
        feeder.join()
        process.stderr.close()
        try:
            process.stdin.close()
        except BrokenPipeError:
            pass
        self.assertIn("standard output", error)
        self.assertNotIn("bug in kiln", error)

    def test_a_kill_leaves_a_part_and_the_earlier_file(self):
        self.rows(data=self.data / "val")
        earlier = (self.folder / "scores.csv").read_bytes()
        process = subprocess.Popen(self.words("--files-from", "-"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        image = next((self.data / "val").rglob("*.png"))
        process.stdin.write(f"{image}\n".encode())
        process.stdin.flush()
        part = self.folder / "scores.csv.part"
        deadline = time.monotonic() + 30
        while not (part.exists() and part.read_text().count("\n") == 2) and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdin.close()
        self.assertEqual(part.read_text().count("\n"), 2)
        self.assertEqual((self.folder / "scores.csv").read_bytes(), earlier)
        self.rows(data=self.data / "val")
        self.assertFalse(part.exists())

    # What the job of the tests below is; batches are small so that it takes its time.
    JOB = ("--top-k", 2, "--batch-size", 2, "--max-bad-images", 2)

    def photos(self):
        """300 images, of which the second and the last are bad. The same folder for all tests: its path is part of a job."""
        folder = self.place / "photos"
        if not folder.exists():
            images = sorted((self.data / "train").rglob("*.*"))
            images = [image for image in images if image.is_file()]
            for number in range(300):
                source = images[number % len(images)]
                target = folder / source.parent.name / f"{number:03}{source.suffix}"
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            for bad in (files[1], files[-1]):
                bad.write_bytes(b"no image")
        return folder

    def until(self, process, holds):
        deadline = time.monotonic() + 120
        while not holds():
            self.assertIsNone(process.poll(), "the job ended too early")
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.005)

    def kill(self, *options, name="scores.csv", **places):
        """Starts a job and kills it at work, once it has saved how far it is; how many images that is."""
        part, progress = self.folder / f"{name}.part", self.folder / f"{name}.part.json"
        process = subprocess.Popen(self.words(*options, **places), stdout=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(process, lambda: part.exists() and part.stat().st_size > 500)
        process.send_signal(signal.SIGSTOP)  # it saves every two seconds, and need not work all that time
        time.sleep(2.1)
        process.send_signal(signal.SIGCONT)
        self.until(process, progress.exists)
        process.kill()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        with open(part, "a") as file:
            file.write("half a ro")
        return json.loads(progress.read_text())["images"]

    def killed(self):
        """Puts what kill() leaves of JOB into the test's folder: made once. The number of images done, and the bytes of a job
        that is not disturbed."""
        kept = self.place / "killed"
        if not kept.exists():
            whole = self.score(*self.JOB, data=self.photos())
            self.assertEqual(whole.returncode, 0, whole.stdout + whole.stderr)
            self.assertIn("bad images: 2", whole.stdout)
            bytes_of_whole = (self.folder / "scores.csv").read_bytes()
            (self.folder / "scores.csv").unlink()
            self.kill(*self.JOB, data=self.photos())
            kept.mkdir()
            for name in ("scores.csv.part", "scores.csv.part.json"):
                shutil.copy(self.folder / name, kept)
            (kept / "whole.csv").write_bytes(bytes_of_whole)
        for name in ("scores.csv.part", "scores.csv.part.json"):
            shutil.copy(kept / name, self.folder)
        return json.loads((kept / "scores.csv.part.json").read_text())["images"], (kept / "whole.csv").read_bytes()

    def assert_whole(self, result, expected=None):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual([path.name for path in self.folder.glob("scores*")], ["scores.csv"])
        if expected is not None:
            self.assertEqual((self.folder / "scores.csv").read_bytes(), expected)

    def test_a_killed_job_goes_on(self):
        done, whole = self.killed()
        self.assertLess(done, 300)
        result = self.score(*self.JOB, data=self.photos())
        self.assert_whole(result, whole)
        self.assert_names(result.stdout, f"{done} images", f"{300 - done} of them", "bad images: 2")

    def numbered_photos(self, count=8):
        """Images that all have one name, each in a folder of its own; the last is bad, and the one before it a copy of the first."""
        photos = self.folder / "photos"
        images = [self.data / "val" / name for name in self.names(self.data / "val")]
        for number, source in enumerate([*images[:count - 2], images[0], None]):
            target = photos / str(number) / "a.png"
            target.parent.mkdir(parents=True)
            target.write_bytes(source.read_bytes() if source else b"no image")
        return photos

    def assert_sorted(self, folder, rows, photos, others=()):
        """`folder` has the images of these rows by their labels, those of the same bytes once, and these other files."""
        expected = {(row["label"] or "unsure", (photos / row["path"]).read_bytes()) for row in rows if not row["fault"]}
        found = [(path.parent.name, path.read_bytes()) for path in folder.rglob("*.png") if path not in others]
        self.assertEqual(sorted(found), sorted(expected))
        self.assertEqual(len(files_below(folder)), len(found) + len(others))
        for place in folder.iterdir():
            numbers = [f"a-{number}.png" for number in range(2, 1 + len(list(place.iterdir())))]
            self.assertEqual(sorted(path.name for path in place.iterdir()), sorted(["a.png", *numbers]))

    def test_images_are_sorted_into_folders_of_their_classes(self):
        photos, folder = self.numbered_photos(), self.folder / "sorted"
        plain = self.rows("--max-bad-images", 1, data=photos)
        known = sorted({round(float(row["confidence"] or 0), 5) for row in plain})
        least = sum(known[len(known) // 2:][:2]) / 2  # of no image: batches change the last bits
        sure = next(row["label"] for row in plain if float(row["confidence"] or 0) >= least)
        (folder / sure).mkdir(parents=True)
        other = folder / sure / "a.png"
        other.write_bytes(b"another file")
        before = files_below(photos)
        job = ("--max-bad-images", 1, "--min-confidence", least, "--sort-into", folder)
        rows = self.rows(*job, data=photos)
        self.assertLess({"", sure}, {row["label"] for row in rows} | {"more"})
        self.assert_sorted(folder, rows, photos, [other])
        self.assertEqual((other.read_bytes(), files_below(photos)), (b"another file", before))
        first = files_below(folder)
        again = self.score(*job, data=photos)
        self.assert_names(again.stdout, "copied:    0 images", "7 were there already", "1 bad")
        self.assertEqual(files_below(folder), first)
        # Of an archive, whose members are no files; and in two parts.
        shutil.make_archive(self.folder / "photos", "zip", photos)
        shutil.rmtree(folder)
        for number in (1, 2):
            done = self.score(*job, "--batch-size", 2, "--part", f"{number}/2", data=self.folder / "photos.zip")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assert_sorted(folder, rows, photos)
        refused = self.score(*job[:-1], f"links:{folder}", data=self.folder / "photos.zip")
        self.assert_refused(refused, 1, "--sort-into links:", "photos.zip")

    def test_images_are_sorted_as_links(self):
        photos, folder = self.numbered_photos(), self.folder / "sorted"
        for _ in range(2):  # the second time they are there
            rows = self.rows("--max-bad-images", 1, "--sort-into", f"links:{folder}", data=photos)
            links = [path for path in folder.rglob("*") if not path.is_dir()]
            self.assertTrue(all(path.is_symlink() and not os.readlink(path).startswith("/") for path in links))
            self.assertEqual(sorted((path.parent.name, path.resolve()) for path in links),
                             sorted((row["label"], photos / row["path"]) for row in rows if not row["fault"]))
        far = pathlib.Path(tempfile.mkdtemp(dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, far)
        self.rows("--max-bad-images", 1, "--sort-into", f"links:{far}", data=photos)
        common = os.path.commonpath([far, photos]) != "/"
        self.assertEqual({os.readlink(path).startswith("/") for path in far.rglob("*.png")}, {not common})

    def test_names_of_classes_that_are_no_names_of_folders(self):
        model, folder = self.folder / "model", self.folder / "below/sorted"
        shutil.copytree(self.model, model)
        (model / "index_to_label.csv").write_text(",label\n0,a/../../b\n1,..\n2,unsure\n")
        rows = self.rows("--sort-into", folder, model=model, data=self.data / "val")
        named = {"a/../../b": "a_.._.._b", "..": "_..", "unsure": "unsure-2"}
        self.assertEqual({path.name for path in folder.iterdir()}, {named[row["label"]] for row in rows})
        self.assertEqual([path.name for path in folder.parent.iterdir()], ["sorted"])

    def test_what_cannot_be_sorted_is_told(self):
        photos, folder = self.numbered_photos(), self.folder / "sorted"
        label = self.rows("--max-bad-images", 1, data=photos)[0]["label"]
        folder.mkdir()
        (folder / label).touch()
        self.assert_refused(self.score("--max-bad-images", 1, "--sort-into", folder, data=photos), 3, label)
        (folder / label).unlink()
        full = subprocess.run(self.words("--max-bad-images", 1, "--sort-into", folder, data=photos, output=None),
                              capture_output=True, text=True, timeout=300,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400)))
        self.assert_refused(full, 3, str(folder), "a.png")
        self.assertEqual(files_below(folder), {})
        self.assert_refused(self.score("--sort-into", photos / "sorted", data=photos), 2, "--sort-into", "is inside")
        self.assert_refused(self.score("--sort-into", f"links:{photos}", data=photos), 2, "--sort-into", "is the same folder")
        self.assert_refused(self.score("--sort-into", "links:", data=photos), 2, "--sort-into needs a folder")

    def test_a_folder_of_somebody_else_is_told(self):
        folder = self.folder / "sorted"
        for path in (self.folder, folder, *(folder / path.name for path in (self.data / "val").iterdir())):
            path.mkdir(exist_ok=True)
            path.chmod(0o777)
        for place in folder.iterdir():
            place.chmod(0o600)  # nobody can look into it
        self.need_nobody()
        closed = subprocess.run(self.words("--sort-into", folder, data=self.data / "val", output=None), capture_output=True, text=True,
                                timeout=60, preexec_fn=become_nobody if os.geteuid() == 0 else None)
        self.assert_refused(closed, 3, str(folder), "Permission denied")

    def test_a_killed_job_has_sorted_what_it_did(self):
        job = (*self.JOB, "--sort-into", self.folder / "sorted")
        self.kill(*job, data=self.photos())
        result = self.score(*job, data=self.photos())
        self.assert_whole(result)
        self.assertIn("already scored", result.stdout)
        self.assertEqual(sorted(path.name for path in (self.folder / "sorted").rglob("*.*")),
                         sorted(path.name for path in self.photos().rglob("*.*") if path.read_bytes() != b"no image"))
        self.killed()
        result = self.score(*self.JOB, "--sort-into", f"links:{self.folder / 'links'}", data=self.photos())
        self.assert_whole(result)
        self.assertIn("--sort-into was not given", result.stdout)
        self.assertEqual(len(list((self.folder / "links").rglob("*.*"))), 298)

    def test_a_killed_job_begins_anew_where_rows_would_differ(self):
        done, whole = self.killed()
        result = self.score("--raw", *self.JOB, data=self.photos())
        self.assert_whole(result)
        self.assertNotEqual((self.folder / "scores.csv").read_bytes(), whole)
        self.assertRegex(result.stdout, f"{done} images were already scored, .*--raw was False and is now True")

    def test_a_killed_job_begins_anew_when_told_to(self):
        _, whole = self.killed()
        result = self.score("--resume", "never", *self.JOB, data=self.photos())
        self.assert_whole(result, whole)
        self.assertNotIn("already scored", result.stdout)

    def test_a_damaged_progress_is_told(self):
        _, whole = self.killed()
        with open(self.folder / "scores.csv.part.json", "r+") as file:
            file.truncate(100)
        result = self.score(*self.JOB, data=self.photos())
        self.assert_whole(result, whole)
        self.assertIn("scores.csv.part.json", result.stdout)

    def test_too_many_bad_images_of_both_jobs(self):
        """Of the two bad images each job meets one; they count together, and the file is whole."""
        _, whole = self.killed()
        refused = self.score("--top-k", 2, "--batch-size", 2, "--max-bad-images", 1, data=self.photos())
        self.assert_refused(refused, 1, "At least 2 images", "--max-bad-images")
        self.assertEqual([path.name for path in self.folder.glob("scores*")], ["scores.csv"])
        self.assertEqual((self.folder / "scores.csv").read_bytes(), whole)

    def test_a_killed_job_goes_on_with_its_list(self):
        photos = self.photos()
        names = self.names(photos)[2:200]
        job = ("--files-from", "list.txt", "--batch-size", 1)
        (self.folder / "list.txt").write_text("\n".join(names))
        self.assert_whole(self.score(*job, data=photos))
        whole = (self.folder / "scores.csv").read_bytes()
        (self.folder / "scores.csv").unlink()
        done = self.kill(*job, data=photos)
        shutil.copytree(self.folder, self.folder / "killed")
        result = self.score(*job, data=photos)
        self.assert_whole(result, whole)
        self.assert_names(result.stdout, f"{done} images")
        for path in (self.folder / "killed").glob("scores*"):
            shutil.copy(path, self.folder)
        (self.folder / "list.txt").write_text("\n".join(reversed(names)))
        result = self.score(*job, data=photos)
        self.assert_whole(result)
        self.assert_names(result.stdout, f"{done} images")

    def test_a_killed_job_begins_anew_with_other_images_of_a_list(self):
        photos = self.photos()
        shutil.copytree(photos, self.folder / "others")
        (self.folder / "list.csv").write_text("path\n" + "\n".join(self.names(photos)[2:200]) + "\n")
        job = ("--batch-size", 1, "--list-root")
        done = self.kill(*job, photos, data=self.folder / "list.csv")
        result = self.score(*job, self.folder / "others", data=self.folder / "list.csv")
        self.assert_whole(result)
        self.assertRegex(result.stdout, f"{done} images were already scored, .*--list-root was")

    def notes(self, pattern):
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob(pattern))]

    def assert_parts(self, count, job, output, **places):
        """The parts of a job are its file; the notes beside them agree and have every row once. Returns the notes."""
        self.assertEqual(self.score(*job, output=f"whole/{output}", **places).returncode, 0)
        stem, extension = output.split(".")
        for number in range(1, count + 1):
            result = self.score(*job, "--part", f"{number}/{count}", output=output, **places)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        parts = sorted(self.folder.glob(f"{stem}.part-*-of-{count}.{extension}"))
        self.assertEqual(len(parts), count)
        self.assertEqual(b"".join(part.read_bytes() for part in parts), (self.folder / "whole" / output).read_bytes())
        notes = self.notes(f"{stem}.part-*-of-{count}.{extension}.json")
        self.assertEqual([note["part"] for note in notes], list(range(1, count + 1)))
        self.assertEqual(len({json.dumps(note["all_parts"]) for note in notes}), 1)
        self.assertEqual([note["first_row"] + note["rows"] for note in notes],
                         [note["first_row"] for note in notes[1:]] + [notes[0]["all_parts"]["images"]])
        return notes

    def test_parts_give_the_bytes_of_one_process(self):
        """Twelve images in batches of five: some parts have none. Ten parts: names of two digits, in the order of the rows."""
        (self.folder / "whole").mkdir()
        data = self.copy_data("val")
        names = self.names(data)
        for bad in (names[0], names[7]):
            (data / bad).write_bytes(b"no image")
        job = ("--batch-size", 5, "--max-bad-images", 2, "--all-classes")
        for count in (2, 10):
            notes = self.assert_parts(count, job, "scores.csv", data=data)
        self.assertEqual(sum(note["rows"] > 0 for note in notes), 3)
        notes = self.assert_parts(3, job, "scores.jsonl", data=data)
        (self.folder / "list.txt").write_text("\n".join([*names[3:], *names[:3]] * 2))
        listed = ("--files-from", "list.txt", "--batch-size", 5, "--max-bad-images", "50%")
        others = self.assert_parts(3, listed, "listed.csv", data=data)
        self.assertNotEqual(notes[0]["all_parts"]["names"], others[0]["all_parts"]["names"])
        self.assertEqual(notes[0]["all_parts"]["model"], others[0]["all_parts"]["model"])

    def test_parts_in_parquet_are_a_folder(self):
        self.pyarrow()
        for number in (1, 2):
            result = self.score("--batch-size", 5, "--part", f"{number}/2", data=self.data / "val", output="scores.parquet")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.names(self.folder / "scores.parquet"),
                         ["_part-1-of-2.parquet.json", "_part-2-of-2.parquet.json", "part-1-of-2.parquet", "part-2-of-2.parquet"])
        program = "import json, sys, pyarrow.parquet as parquet; print(json.dumps(parquet.read_table(sys.argv[1])['path'].to_pylist()))"
        read = subprocess.run([sys.executable, "-c", program, self.folder / "scores.parquet"], capture_output=True, text=True,
                              check=True, env=ARROW)
        self.assertEqual(json.loads(read.stdout), self.names(self.data / "val"))
        refused = self.score("--part", "1/3", data=self.data / "val", output="scores.parquet")
        self.assertEqual(refused.returncode, 3, refused.stdout + refused.stderr)
        self.assertIn("another division", refused.stdout + refused.stderr)

    def test_a_killed_part_goes_on(self):
        job = ("--batch-size", 1, "--max-bad-images", 2, "--part", "2/2")
        self.assertEqual(self.score(*job, data=self.photos()).returncode, 0)
        part, note = self.folder / "scores.part-2-of-2.csv", self.folder / "scores.part-2-of-2.csv.json"
        whole, told = part.read_bytes(), note.read_bytes()
        part.unlink()
        done = self.kill(*job, name=part.name, data=self.photos())
        self.assertFalse(note.exists())
        result = self.score(*job, data=self.photos())
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, f"{done} images", f"{150 - done} of them")
        self.assertEqual((part.read_bytes(), note.read_bytes()), (whole, told))
        self.assertEqual(sorted(path.name for path in self.folder.glob("scores*")), [part.name, note.name])

    def test_faults_are_told_together(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "notes.txt").touch()
        refused = self.score("--explain", full, model=self.untrained, data=self.folder / "nowhere", output="missing/scores.csv")
        self.assert_refused(refused, 1, "untrained model", "nowhere", "missing", "notes.txt")
        self.assertEqual(self.names(full), ["notes.txt"])
        refused = self.score(data=self.data / "val", output="scores.xls")
        self.assert_refused(refused, 2, "scores.xls", ".csv, .jsonl or .parquet")
        self.assertEqual(self.score(output="scores.csv").returncode, 2)
        self.assert_nothing_written()

    def test_a_processing_job_of_sagemaker_shows_why_it_failed(self):
        (self.folder / "config").mkdir()
        (self.folder / "config/resourceconfig.json").write_text('{"current_host": "algo-1", "hosts": ["algo-1"]}')
        failed = subprocess.run(self.words(data=self.folder / "nowhere"), capture_output=True, text=True,
                                env={**os.environ, "SAGEMAKER_BASE_DIR": str(self.folder)})
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("nowhere", (self.folder / "output/message").read_text())
        self.assertFalse((self.folder / "output/failure").exists())

    def test_what_is_no_model_is_named(self):
        labels = self.folder / "labels"
        shutil.copytree(self.model, labels)
        (labels / "index_to_label.csv").write_text(",label\n0,a\n1,b\n")
        (self.folder / "empty").mkdir()
        for model, words in ((self.data / "val", ["folder of images"]), (self.shared_folder / "logs", ["log folder"]),
                             (labels, ["2 labels", "3 classes"]), (self.folder / "empty", ["empty"])):
            with self.subTest(model=model):
                self.assert_refused(self.score(model=model, data=self.data / "val"), 1, *words)
        self.assert_refused(self.score(data=self.folder / "empty"), 1, "is empty")
        self.assert_nothing_written()

    def test_labels_that_the_model_does_not_know(self):
        data = self.copy_data("val")
        known = sorted(data.iterdir())[0]
        known.rename(data / "unicorn")
        result = self.score(data=data)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("'unicorn'", result.stdout + result.stderr)

    def test_a_model_of_the_designer_takes_images_as_they_are(self):
        """Its directory has no preprocessing.json: the first image tells the size, and others are resized to it."""
        model = self.folder / "model"
        shutil.copytree(self.model, model)
        (model / "preprocessing.json").unlink()
        expected = self.rows(data=self.data / "val")
        self.assertEqual(self.rows(model=model, data=self.data / "val"), expected)
        self.assertEqual(kiln("demo-data", self.folder / "larger", "--images", 6, "--size", 40).returncode, 0)
        data = self.copy_data("val")
        last = sorted(data.iterdir())[-1] / "z.jpg"
        shutil.copy(next((self.folder / "larger/val").rglob("*.jpg")), last)
        rows = self.rows("--max-bad-images", 1, model=model, data=data)
        self.assertEqual(len(rows), len(expected) + 1)
        self.assertFalse([row for row in rows if row["fault"]])


class PageTest(Scored, BrowserCase):
    def test_answers_on_a_page(self):
        page = self.folder / "answers.html"
        rows = self.rows("--page", page, data=self.data / "val")
        self.look_at(page)
        shown = self.browser.evaluate("[...document.querySelectorAll('figure')].map(f => [f.dataset.file, f.dataset.answer,"
                                      " f.querySelectorAll('.best li').length])")
        classes = len(list((self.data / "val").iterdir()))
        self.assertLessEqual({tuple(one) for one in shown}, {(row["path"], row["label"], classes) for row in rows})
        self.assertNotIn("label_2", rows[0])  # of the page alone
        counts = self.browser.evaluate("Object.fromEntries([...document.querySelectorAll('#answers tbody tr')].map(r =>"
                                       " [r.cells[0].textContent, Number(r.cells[1].textContent)]))")
        self.assertEqual(counts, {name: sum(row["label"] == name for row in rows) for name in {row["label"] for row in rows}})


if __name__ == "__main__":
    main()
