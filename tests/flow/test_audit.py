"""`kiln audit`: turned labels, copies and dark images that are planted here, found in the files that it writes."""
import csv
import json
import pathlib
import random
import shutil
import sys
import tempfile

from browser import BrowserCase
from flow import FlowTest, files_below, kiln, main

FILES = {"audit.html", "audit.json", "doubtful.csv", "duplicates.csv"}
SHARE = 0.05  # of the labels, turned


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def pillow():
    packages = pathlib.Path(__file__).parents[2] / ".deps/parity"
    if str(packages) not in sys.path:
        sys.path.insert(0, str(packages))
    try:
        from PIL import Image
    except ImportError:
        return None
    return Image


class Audited(FlowTest):
    @classmethod
    def setUpClass(cls):
        """A backbone that was trained on other drawings, of more classes."""
        super().setUpClass()
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="kiln-audit-"))
        cls.addClassCleanup(shutil.rmtree, cls.made, ignore_errors=True)
        for words in (["demo-data", "--output-path", cls.made / "others", "--images", 300, "--classes", 5, "--random-seed", 9],
                      ["demo-data", "--output-path", cls.made / "drawn", "--images", 300, "--classes", 3],
                      ["train", "--untrained-model-path", cls.untrained, "--train-data-path", cls.made / "others/train",
                       "--valid-data-path", cls.made / "others/val", "--trained-model-path", cls.made / "model", "--log-path",
                       cls.made / "logs", "--epochs", 8, "--batch-size", 16, "--learning-rate", "0.02", "--device", "cpu"]):
            done = kiln(*words)
            assert done.returncode == 0, done.stderr

    def setUp(self):
        super().setUp()
        self.photos = self.folder / "photos"
        shutil.copytree(self.made / "drawn/train", self.photos)

    def audit(self, *options, data=None, output="audit", model="model"):
        return kiln("audit", "--data-path", data or self.photos, "--trained-model-path", self.made / model, "--output-path",
                    self.folder / output, "--device", "cpu", *options)

    def audited(self, *options, **places):
        result = self.audit(*options, **places)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        folder = self.folder / places.get("output", "audit")
        self.assertEqual(set(files_below(folder)), FILES)
        return folder, json.loads((folder / "audit.json").read_text())

    def turn_labels(self):
        """Moves a share of the images into another class: path there -> true class."""
        draw = random.Random(4)
        images = sorted(path for path in self.photos.rglob("*.*"))
        classes = sorted(path.name for path in self.photos.iterdir())
        turned = {}
        for path in draw.sample(images, round(SHARE * len(images))):
            truth = path.parent.name
            wrong = draw.choice([name for name in classes if name != truth])
            target = self.photos / wrong / ("turned-" + path.name)
            path.rename(target)
            turned[f"{wrong}/{target.name}"] = truth
        return turned


class AuditTest(Audited):
    def test_turned_labels_come_first(self):
        turned = self.turn_labels()
        before = files_below(self.photos)
        folder, record = self.audited("--top", 5)
        self.assertEqual(files_below(self.photos), before)
        rows = rows_of(folder / "doubtful.csv")
        self.assertEqual(list(rows[0]), ["path", "label", "suggested", "confidence", "reason"])
        found = [row for row in rows[:len(turned)] if row["path"] in turned]
        self.assertGreaterEqual(len(found) / len(turned), 0.8, rows)
        right = [row for row in found if row["suggested"] == turned[row["path"]]]
        self.assertGreaterEqual(len(right) / len(found), 0.8, found)
        for row in rows:
            self.assertEqual(row["path"].split("/")[0], row["label"])
        doubtful = record["doubtful"]
        self.assertEqual([image["path"] for image in doubtful], [row["path"] for row in rows[:len(doubtful)]])
        scores = [image["self_confidence"] for image in doubtful]
        self.assertEqual(scores, sorted(scores))
        self.assertEqual(sum(entry["images"] for entry in record["classes"]), record["images"])
        self.assertEqual(sum(entry["doubtful"] for entry in record["classes"]), len(doubtful))
        page = (folder / "audit.html").read_text()
        shown = page[page.index('id="doubtful"'):]
        self.assert_names(page, "doubtful.csv", "--labels")
        self.assertGreaterEqual(shown.count("data:image/jpeg;base64,"), 5)
        # The same again, to the byte; and what a person has written stays.
        first = (folder / "doubtful.csv").read_bytes()
        self.audited()
        self.assertEqual((folder / "doubtful.csv").read_bytes(), first)
        edited = first.replace(b",label", b",checked", 1)
        (folder / "doubtful.csv").write_bytes(edited)
        self.assert_refused(self.audit(), 3, "has been edited")
        self.assertEqual((folder / "doubtful.csv").read_bytes(), edited)

    def write_decisions(self, rows):
        with open(self.folder / "decisions.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return self.folder / "decisions.csv"

    def assert_decided(self, decisions, right, changed, left_out):
        """A second audit with this file of decisions asks for nothing that they say; `changed`: path -> label."""
        result = self.audit("--labels", decisions, output="again")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assert_names(result.stdout, f"{len(right)} right, {len(changed)} relabeled, {len(left_out)} left out", "gone.png")
        record = json.loads((self.folder / "again/audit.json").read_text())
        self.assertEqual(record["decided"], len(right) + len(changed) + len(left_out))
        self.assertEqual(record["images"], len(files_below(self.photos)) - len(left_out))
        listed = {row["path"]: row["label"] for row in rows_of(self.folder / "again/doubtful.csv")}
        doubted = {image["path"]: image["label"] for image in record["doubtful"]}
        for again in (listed, doubted):
            self.assertEqual({*again} & {*right, *left_out}, set())
            self.assertLessEqual({(path, label) for path, label in again.items() if path in changed}, set(changed.items()))
        self.assertEqual(sum(entry["doubtful"] for entry in record["classes"]), len(doubted))
        return listed

    def test_decisions_are_remembered(self):
        turned = self.turn_labels()
        shutil.copy(sorted(self.photos.rglob("*.png"))[0], sorted(self.photos.iterdir())[-1] / "zz-copy.png")
        folder, _ = self.audited()
        rows = rows_of(folder / "doubtful.csv")
        changed = {row["path"]: turned[row["path"]] for row in rows if row["path"] in turned}
        others = [row["path"] for row in rows if row["path"] not in turned]
        self.assertGreater(len(changed), 0)
        self.assertGreaterEqual(len(others), 2)
        left_out = others[:1]
        edited = [{**row, "label": changed.get(row["path"], "" if row["path"] in left_out else row["label"])} for row in rows]
        gone = {**edited[0], "path": "gone.png"}
        self.assert_decided(self.write_decisions([*edited, gone]), others[1:], changed, left_out)

        # With a column of decisions; where it is empty, nothing is decided.
        words = {path: "relabel" for path in changed} | {path: "right" for path in others} | {others[0]: "leave out", others[1]: ""}
        decided = [{"path": row["path"], "label": changed.get(row["path"], row["label"]), "decision": words[row["path"]]}
                   for row in rows]
        listed = self.assert_decided(self.write_decisions([*decided, {**decided[0], "path": "gone.png"}]), others[2:], changed,
                                     left_out)
        before = {row["path"] for row in rows}
        self.assertLessEqual({*listed} & before, {others[1], *changed})

        unclear = self.write_decisions([{**decided[0], "decision": "perhaps"}, {**decided[1], "decision": "right", "label": ""}])
        self.assert_refused(self.audit("--labels", unclear, output="none"), 1, "line 2", "'perhaps'", "line 3", "needs a label")
        self.assert_refused(self.audit("--labels", unclear, output="."), 2, "--output-path", "--labels")
        self.assert_refused(self.audit("--labels", unclear, "--task", "multi-label"), 2, "--labels", "--task")

    def test_planted_copies_are_found(self):
        images = sorted(self.photos.rglob("*.png"))
        other = next(path for path in self.photos.iterdir() if path != images[0].parent)
        planted = {}

        def plant(source, target):
            planted[str(target.relative_to(self.photos))] = str(source.relative_to(self.photos))
            return target

        shutil.copy(images[0], plant(images[0], images[0].parent / "zz-plain.png"))
        shutil.copy(images[1], plant(images[1], other / "zz-other.png"))
        exact = len(planted)
        image_kind = pillow()
        if image_kind:
            picture = image_kind.open(images[2]).convert("RGB")
            picture.resize((48, 48), image_kind.Resampling.BICUBIC).save(plant(images[2], images[2].parent / "zz-resized.png"))
            image_kind.open(images[3]).convert("RGB").save(plant(images[3], images[3].parent / "zz-recompressed.jpg"), quality=80)
        folder, record = self.audited()
        pairs = {frozenset((row["path"], row["other"])): row for row in rows_of(folder / "duplicates.csv")}
        for number, pair in enumerate(planted.items()):
            row = pairs.get(frozenset(pair))
            self.assertIsNotNone(row, pair)
            self.assertEqual(row["kind"], "exact" if number < exact else "near")
            same = pair[0].split("/")[0] == pair[1].split("/")[0]
            self.assertEqual(row["same_class"], str(same))
        self.assertEqual(len(record["duplicates"]), len(pairs))
        self.assertFalse(record["duplicates"][0]["same_class"])
        listed = {row["path"]: row for row in rows_of(folder / "doubtful.csv")}
        self.assertIn("copy of", listed[str((other / "zz-other.png").relative_to(self.photos))]["reason"])
        if not image_kind:
            self.skipTest("no Pillow: resized and recompressed copies were not tried")

    def test_copies_across_two_sets(self):
        valid = self.folder / "valid"
        shutil.copytree(self.made / "drawn/val", valid)
        first, second = sorted(self.photos.rglob("*.png"))[:2]
        other = next(path for path in sorted(valid.iterdir()) if path.name != second.parent.name)
        shutil.copy(first, valid / first.parent.name / "zz-same.png")
        shutil.copy(second, other / "zz-other.png")
        inside = sorted(valid.rglob("[!z]*.png"))[0]
        shutil.copy(inside, inside.parent / "zz-inside.png")
        folder, record = self.audited("--valid-data-path", valid)
        pairs = {(row["path"], row["other"]): (row["kind"], row["same_class"], row["set"], row["other_set"])
                 for row in rows_of(folder / "duplicates.csv")}
        for source, root, made, expected in (
                (first, self.photos, f"{first.parent.name}/zz-same.png", ("exact", "True", "train", "valid")),
                (second, self.photos, f"{other.name}/zz-other.png", ("exact", "False", "train", "valid")),
                (inside, valid, f"{inside.parent.name}/zz-inside.png", ("exact", "True", "valid", "valid"))):
            self.assertEqual(pairs.get((str(source.relative_to(root)), made)), expected, pairs)
        self.assertEqual(record["images"], len(files_below(self.photos)))
        doubtful = {row["path"]: row["reason"] for row in rows_of(folder / "doubtful.csv")}
        self.assertIn("(validation)", doubtful[str(second.relative_to(self.photos))])
        self.assertNotIn(f"{other.name}/zz-other.png", doubtful)
        self.assertIn("on the other side of the split", (folder / "audit.html").read_text())

    def test_dark_and_empty_images_are_found(self):
        image_kind = pillow()
        if not image_kind:
            self.skipTest("no Pillow to draw them")
        first = sorted(self.photos.rglob("*.png"))[0]
        image_kind.open(first).convert("RGB").point(lambda value: value // 6).save(first.parent / "zz-dark.png")
        image_kind.new("RGB", (32, 32), (120, 130, 140)).save(first.parent / "zz-empty.png")
        image_kind.effect_noise((32, 32), 200).convert("RGB").save(first.parent / "zz-noise.png")
        _, record = self.audited()
        kinds = {pathlib.Path(image["path"]).name: image["kind"] for image in record["flawed"]}
        self.assertEqual(kinds.get("zz-dark.png"), "dark")
        self.assertEqual(kinds.get("zz-noise.png"), "outlier")
        self.assertEqual(kinds.get("zz-empty.png"), "nearly empty")

    def test_a_bad_image_is_told(self):
        broken = sorted(self.photos.rglob("*.png"))[0]
        broken.write_bytes(b"no image")
        _, record = self.audited("--max-bad-images", 1)
        self.assertEqual(record["bad_images"], 1)
        self.assertEqual([fault["path"] for fault in record["faults"]], [str(broken.relative_to(self.photos))])

    def test_refusals(self):
        one = self.folder / "one"
        shutil.copytree(next(self.photos.iterdir()), one / "circle")
        strange = self.folder / "strange"
        (strange / "sub").mkdir(parents=True)
        for places, code, word in ((dict(data=one), 1, "two classes"), (dict(output="strange"), 3, "not empty"),
                                   (dict(model="missing"), 1, "missing"), (dict(output="photos/audit"), 2, "--output-path")):
            with self.subTest(**places):
                self.assert_refused(self.audit(**places), code, word)
        self.assert_refused(self.audit("--group-by", "."), 1, "--group-by")
        self.assert_refused(self.audit("--group-by", "("), 2, "--group-by")
        for path in self.photos.rglob("*.*"):
            path.write_bytes(b"no image")
        self.assert_refused(self.audit("--max-bad-images", "100%"), 1, "not an image: it is text")
        self.assertFalse((self.folder / "audit/audit.json").exists())


class PageTest(Audited, BrowserCase):
    def test_decisions_become_a_table(self):
        self.turn_labels()
        folder, record = self.audited()
        self.look_at(folder / "audit.html")
        first, second = record["doubtful"][:2]
        self.browser.open(folder / "audit.html")
        for number, name in ((0, "is " + first["suggested"]), (1, "leave out")):
            self.browser.evaluate(f"[...document.querySelectorAll('.decide')[{number}].querySelectorAll('button')]"
                                  f".find(b => b.textContent === '{name}').click()")
        saved = self.browser.evaluate("decodeURIComponent(document.querySelector('.save').href.split(',').slice(1).join(','))")
        self.assertEqual(saved, self.browser.evaluate("document.querySelector('textarea').value"))
        self.assertEqual(self.browser.complaints(), [])
        self.assertEqual(list(csv.DictReader(saved.splitlines())),
                         [{"path": first["path"], "label": first["suggested"]}, {"path": second["path"], "label": ""}])

    def test_pictures_that_a_page_has_no_room_for_are_beside_it(self):
        images = sorted(self.photos.rglob("*.*"))
        for path in images:
            shutil.copy(path, path.with_name("copy-of-" + path.name))
        result = self.audit("--top", 1000)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        folder = self.folder / "audit"
        beside = sorted((folder / "pictures").iterdir())
        num_copies = len(json.loads((folder / "audit.json").read_text())["duplicates"])
        self.assertEqual(len(beside), 2 * (num_copies - 200))
        self.look_at(folder / "audit.html", beside)
        last = "[...document.querySelectorAll('#copies img')].at(-1)"
        show = "document.querySelector('#copies .gallery + button').click()"
        wait = f"new Promise(r => {{ const i = {last}; i.complete ? r() : (i.onload = i.onerror = r); }})"
        for is_there in (True, False):
            with self.subTest(is_there=is_there):
                if not is_there:
                    (folder / "pictures").rename(folder / "elsewhere")
                self.browser.open(folder / "audit.html")
                for _ in range(num_copies // 48 + 1):
                    self.browser.evaluate(show)
                self.browser.evaluate(wait)
                self.assertEqual(self.browser.evaluate(f"{last}.naturalWidth > 0"), is_there)
                self.assertEqual(self.browser.evaluate("document.getElementById('missing').hidden"), is_there)
        # They go with the audit that had them; what a person has put there stays.
        (folder / "elsewhere").rename(folder / "pictures")
        (folder / "pictures/own.jpg").touch()
        self.assertEqual(self.audit("--top", 1).returncode, 0)
        self.assertEqual(files_below(folder / "pictures"), {"own.jpg": b""})


if __name__ == "__main__":
    main()
