"""report.html, `kiln report` and `kiln compare`, read back from the pages in a real browser."""
import csv
import json
import os
import time

from browser import BrowserCase
from flow import FlowTest, kiln, main
from run_files import LABELS_OF_STRANGERS, RunFile


def events_of(folder, kind):
    """The lines of a kind in the metrics.jsonl of a --log-path."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


class ReportTest(FlowTest):
    """What needs no browser."""

    def test_report_goes_beside_the_log_or_where_it_is_told(self):
        run = RunFile(epochs=2).write(self.folder / "run")
        result = kiln("report", run)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("run/report.html'", result.stdout)
        elsewhere = self.folder / "elsewhere.html"
        self.assertEqual(kiln("report", run / "metrics.jsonl", "--output-path", elsewhere).returncode, 0)
        self.assertEqual(elsewhere.read_bytes(), (run / "report.html").read_bytes())

    def test_a_killed_run_is_told_up_to_its_last_whole_line(self):
        made = RunFile(epochs=3)
        made.end = None
        run = made.write(self.folder / "run")
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"event": "epoch", "epo')
        result = kiln("report", run)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3 of 3 epochs", result.stdout)

    def test_what_is_no_run_is_refused(self):
        self.assert_refused(kiln("report", self.folder), 1, "metrics.jsonl", "--log-path")
        (self.folder / "metrics.jsonl").write_text("a b\n")
        self.assert_refused(kiln("report", self.folder), 1, "The line at byte 0")
        self.assert_refused(kiln("report"), 1, "--log-path")
        run = RunFile(epochs=1).write(self.folder / "run")
        self.assert_refused(kiln("report", run, "--output-path", self.folder / "no/such/file.html"), 3, "no/such")
        self.assert_refused(kiln("compare", run, self.folder / "nowhere"), 1, "nowhere")
        (self.folder / "loop").symlink_to("loop")
        for command in (["report"], ["compare", run]):
            self.assert_refused(kiln(*command, self.folder / "loop"), 1, "'" + str(self.folder / "loop"), "cannot be read")
        record = (run / "metrics.jsonl").read_bytes()
        self.assert_refused(kiln("report", run, "--output-path", run / "metrics.jsonl"), 1, "is a run record")
        (self.folder / "link.html").symlink_to(run / "metrics.jsonl")
        self.assert_refused(kiln("compare", run, run, "--output-path", self.folder / "link.html"), 1, "is a run record")
        self.assertEqual((run / "metrics.jsonl").read_bytes(), record)
        os.mkfifo(self.folder / "metrics.jsonl.fifo")
        self.assert_refused(kiln("report", self.folder / "metrics.jsonl.fifo"), 1, "cannot be read")

    def test_compare_prints_a_table(self):
        runs = []
        for number, epochs in enumerate((4, 20)):
            made = RunFile(epochs=epochs, seed=number)
            runs.append(made.write(self.folder / f"run{number}"))
        page = self.folder / "page.html"
        result = kiln("compare", *runs, "--output-path", page)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        head, first, second, *rest = result.stdout.splitlines()
        self.assertEqual(head.split()[:2], ["run", "top-1"])
        self.assertEqual((first.split()[0], second.split()[0]), (str(runs[1]), str(runs[0])))
        self.assertTrue("20/20" in first and "4/4" in second)
        self.assertTrue(any(line.split() == ["--epochs", "20", "4"] for line in rest), result.stdout)
        self.assertIn("statistically significant", result.stdout)
        self.assertTrue(page.exists())
        table, rows = self.folder / "runs.csv", self.folder / "runs.json"
        for output in (table, rows):
            self.assertEqual(kiln("compare", *runs, "--output-path", output).returncode, 0)
        rows = json.loads(rows.read_text())
        self.assertEqual([row["run"] for row in rows], [str(runs[1]), str(runs[0])])
        self.assertGreater(rows[0]["top1"], rows[1]["top1"])
        with table.open(newline="") as file:
            self.assertEqual([float(row["top1"]) for row in csv.DictReader(file)], [row["top1"] for row in rows])


class BrowserTest(BrowserCase):
    def report_of(self, made):
        folder = made.write(self.folder / "run")
        result = kiln("report", folder)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.look_at(folder / "report.html")

    def page_of_a_run_that_goes_on(self, silent_seconds):
        made = RunFile(epochs=2)
        made.end = None
        made.start["host"] = "another-host"
        later = time.time() - silent_seconds - made.events[-1]["time"]
        for event in (made.start, *made.events):
            event["time"] += later
        folder = made.write(self.folder / str(silent_seconds))
        self.assertEqual(kiln("report", folder).returncode, 0)
        return folder / "report.html"

    def test_a_run_without_news_was_probably_killed(self):
        for silent_seconds, word in ((60, "running"), (700, "no news")):
            self.look_at(self.page_of_a_run_that_goes_on(silent_seconds))
            self.assert_names(self.texts("#status")[0], word)

    def test_a_page_that_loads_itself_again_keeps_its_place(self):
        page = self.page_of_a_run_that_goes_on(60)
        page.write_text(page.read_text().replace('<link rel="icon"', '<meta http-equiv="refresh" content="1"><link rel="icon"'))
        self.browser.show(390)
        self.browser.open(page)
        began = self.browser.evaluate("performance.timeOrigin")
        self.browser.evaluate("scrollTo(0, 300)")
        end = time.monotonic() + 30
        while self.browser.evaluate("performance.timeOrigin") == began and time.monotonic() < end:
            time.sleep(0.2)
        self.assertNotEqual(self.browser.evaluate("performance.timeOrigin"), began)
        self.assertEqual(self.browser.evaluate("scrollY"), 300)

    def value(self, name):
        return self.browser.evaluate(f"Number(document.getElementById('{name}').value)")

    def texts(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll(`{selector}`)].map(e => e.textContent)")

    def plotted(self, chart, series):
        """The values of a series in the chart with this title."""
        return self.browser.evaluate(
            f"[...[...document.querySelectorAll('figure.chart')].find(f => f.querySelector('h3').textContent === '{chart}')"
            f".querySelector('g[data-name=\"{series}\"]').dataset.y.split(' ')].map(Number)")

    def assert_close(self, values, expected):
        self.assertEqual(len(values), len(expected))
        for value, other in zip(values, expected):
            self.assertAlmostEqual(value, other, delta=1e-5 * abs(other) + 1e-9)

    def test_a_real_run_reads_back(self):
        # The default options, but for the size: the report is there without being asked for.
        result = self.train(epochs=2, threads=1, print_freq=2)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        logs = self.folder / "logs"
        self.look_at(logs / "report.html")
        training = json.loads((self.folder / "model/training.json").read_text())
        epochs = events_of(logs, "epoch")
        best = max(training["epochs"], key=lambda epoch: (epoch["top1"], -epoch["valid_loss"]))
        self.assert_close([self.value(name) for name in ("top1", "epochs")], [best["top1"], 2])
        self.assertTrue(self.value("top1-low") <= best["top1"] <= self.value("top1-high"))
        self.assertEqual(self.texts("#status"), ["finished"])
        for chart, series, key in (("Loss", "training", "train_loss"), ("Loss", "validation", "valid_loss"),
                                   ("Top-1 accuracy", "validation", "top1"), ("Learning rate", "epochs", "learning_rate"),
                                   ("Images per second", "epochs", "train_images_per_second")):
            self.assert_close(self.plotted(chart, series), [epoch[key] for epoch in training["epochs"]])
        self.assertEqual(self.texts("#command"), [events_of(logs, "start")[0]["command"]])
        self.assertEqual(len(self.texts("#time g.stack[data-name=validation]")), 1)
        self.assert_close(self.plotted("Seconds per epoch", "validation"), [epoch["valid_seconds"] for epoch in epochs])
        options = self.texts("#again details:first-of-type th[scope=row]")
        self.assertEqual(options, list(training["options"]))
        # `kiln report` makes the same page of the file, and of a run that was killed before its end.
        whole = (logs / "report.html").read_bytes()
        self.assertEqual(kiln("report", logs).returncode, 0)
        self.assertEqual((logs / "report.html").read_bytes(), whole)

    def test_classes_confusion_and_mistakes(self):
        made = RunFile().judge()
        self.report_of(made)
        judgement = made.events[-1]["judgement"]
        hits = {truth: count for truth, guess, count in judgement["confusion"]["cells"] if truth == guess}
        rows = self.browser.evaluate("[...document.querySelectorAll('#classes tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        self.assertEqual({row[0]: int(row[4]) for row in rows}, {made.classes[truth]: count for truth, count in hits.items()})
        recalls = [float(row[1].removesuffix("\u00a0%")) for row in rows]
        self.assertEqual(recalls, sorted(recalls))
        cells = self.browser.evaluate("[...document.querySelectorAll('.matrix tbody tr')].map(r => [...r.cells].slice(1).map(c => Number(c.textContent)))")
        self.assertEqual([[truth, guess, count] for truth, row in enumerate(cells) for guess, count in enumerate(row) if count],
                         judgement["confusion"]["cells"])
        images = self.browser.evaluate("[...document.querySelectorAll('.gallery img')].map(i => [i.alt, i.naturalWidth, i.className])")
        self.assertEqual(images, [[image["file"], 8, "pixels"] for image in made.wrong])
        first = made.wrong[0]
        self.assertEqual(self.texts(".gallery .guess")[0], made.classes[first["guess"]] + " 99.9\u00a0%")
        self.assertEqual(self.texts(".gallery .truth")[0], "labeled " + made.classes[first["truth"]])

    def test_pictures_are_chosen_opened_and_found_from_the_matrix(self):
        made = RunFile(valid_per_class=70).judge(num_wrong=40)
        self.report_of(made)
        self.assertEqual(len(self.texts(".gallery figure")), 24)
        ask = self.browser.evaluate
        ask("document.querySelector('.gallery + button').click()")
        self.assertEqual(len(self.texts(".gallery figure")), 40)
        # A cell of the matrix shows its images, the name of a row those of its class.
        truth, guess = made.wrong[30]["truth"], made.wrong[30]["guess"]
        ask(f"document.querySelector('.matrix').tBodies[0].rows[{truth}].cells[{guess + 1}].click()")
        self.assertEqual(ask("[...document.querySelectorAll('.gallery figure')].map(f => f.dataset.file)"), [made.wrong[30]["file"]])
        ask(f"document.querySelector('.matrix').tBodies[0].rows[{truth}].cells[0].click()")
        self.assertEqual(ask("document.querySelectorAll('.gallery figure').length"), sum(w["truth"] == truth for w in made.wrong))
        # Opened with the keyboard, on to the next one, and closed.
        ask("(s => { s.value = ''; s.dispatchEvent(new Event('change')); })(document.querySelector('[aria-label=\"all labels\"]'))")
        ask("document.querySelector('.picture').focus()")
        self.browser.key("Enter")
        self.assertEqual(ask("document.querySelector('dialog').open"), True)
        self.assertIn(made.wrong[0]["file"], self.texts("dialog .file"))
        self.assertEqual(len(self.texts("dialog .best li")), 2)
        self.browser.key("ArrowRight")
        self.assertIn(made.wrong[1]["file"], self.texts("dialog .file"))
        ask("document.querySelector('dialog form button:last-child').click()")
        self.assertEqual(ask("document.querySelector('dialog').open"), False)
        # Counts and shares; sorted and filtered rows; a hidden curve.
        counts = self.texts(".matrix td")
        ask("document.querySelector('#confusion > button').click()")
        self.assertNotEqual(self.texts(".matrix td"), counts)
        names = self.texts("#classes tbody th")
        ask("document.querySelector('#classes .sort').click()")
        self.assertEqual(self.texts("#classes tbody th"), sorted(names, reverse=True))
        ask("document.querySelector('#curves .legend li').click()")
        self.assertEqual(ask("document.querySelector('#curves g[data-name=training]').style.display"), "none")
        self.assertEqual(self.browser.complaints(), [])

    def test_a_page_without_its_script_has_the_first_pictures(self):
        made = RunFile().judge(num_wrong=40)
        folder = made.write(self.folder / "run")
        self.assertEqual(kiln("report", folder).returncode, 0)
        page = (folder / "report.html").read_text()
        self.assertEqual(page.split("<template>")[0].count("<figure data-file"), 24)
        (folder / "pictures.bin").unlink()
        self.assertEqual(kiln("report", folder).returncode, 0)
        self.assertNotIn("<figure data-file", (folder / "report.html").read_text())
        (folder / "pictures.bin").write_bytes(made.pictures[:-1])
        result = kiln("report", folder)
        self.assertEqual(result.returncode, 0)
        self.assertIn("pictures.bin", result.stdout + result.stderr)

    def test_the_keyboard_and_the_pointer_show_values(self):
        made = RunFile(epochs=4, steps=10)
        made.events = [event for event in made.events if event["event"] == "epoch"]
        self.report_of(made)
        self.browser.evaluate("document.querySelector('.chart svg').focus()")
        for _ in range(3):
            self.browser.key("ArrowRight")
        loss = made.events[2]["valid"]["loss_sum"] / made.events[2]["valid"]["images"]
        tip = self.texts(".tip:not([hidden]) p")
        self.assertEqual([tip[0], tip[2]], ["epoch 3", f"validation {float(f'{loss:.4g}')}"])
        self.browser.key("Escape")
        self.assertEqual(self.texts(".tip:not([hidden])"), [])
        box = self.browser.evaluate("(({right, top}) => ({x: right - 15, y: top + 50}))(document.querySelector('.chart svg').getBoundingClientRect())")
        self.browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box["x"], y=box["y"])
        self.assertEqual(self.texts(".tip:not([hidden]) p")[0], "epoch 4")
        self.assertEqual(self.browser.complaints(), [])

    def test_it_speaks_to_a_screen_reader(self):
        self.report_of(RunFile(epochs=3).judge())
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        names = [(node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in nodes]
        charts = [name for role, name in names if role in ("image", "img") and "by epoch" in name]
        self.assertEqual(len(charts), 4)
        self.assertRegex(charts[0], r"Loss by epoch\. training from [\d.]+ to [\d.]+\. validation from")
        self.assertEqual([name for role, name in names if role in ("image", "img") and not name], [])
        headings = [name for role, name in names if role == "heading"]
        self.assertEqual(headings[:3], ["resnet18 on photos", "Did it work?", "Can it be trusted?"])
        tables = self.browser.evaluate("[...document.querySelectorAll('figure.chart')].map(f => f.querySelectorAll('details table tbody tr').length)")
        self.assertEqual(tables, [3] * 5)

    def test_names_of_strangers_are_only_shown(self):
        made = RunFile(classes=LABELS_OF_STRANGERS, epochs=1).judge()
        made.events.insert(0, {"event": "warning", "text": LABELS_OF_STRANGERS[0]})
        made.start["options"]["train-data-path"] = LABELS_OF_STRANGERS[5]
        made.start["command"] = LABELS_OF_STRANGERS[1]
        self.report_of(made)
        self.assertEqual(self.browser.evaluate("document.title"), "resnet18 on photos – Kiln")
        self.assertEqual(self.browser.evaluate("document.scripts.length"), 1)
        self.assertEqual(self.texts("#warnings li"), [LABELS_OF_STRANGERS[0]])
        self.assertEqual(self.texts("#command"), [LABELS_OF_STRANGERS[1]])
        shown = self.texts("#classes tbody th")
        self.assertLessEqual({LABELS_OF_STRANGERS[1], "two\\x0alines\tand a tab", "x" * 39 + "…",
                              LABELS_OF_STRANGERS[3].replace("\u202e", "\\xe2\\x80\\xae")}, set(shown))

    def test_odd_runs_are_shown_without_complaint(self):
        for name, made, status, words in self.odd_runs():
            with self.subTest(name=name):
                self.report_of(made)
                self.assertEqual(self.texts("#status"), [status])
                self.assertIn(words, self.browser.evaluate("document.body.textContent"))

    def odd_runs(self):
        killed = RunFile(epochs=3)
        killed.events, killed.end = killed.events[:5], None
        yield "killed in its first epoch", killed, "no news for a long time: probably killed", "No epoch was finished"
        broken = RunFile(epochs=4)
        for event in broken.events:
            if event["epoch"] > 2:
                for key in {"batch", "train", "valid"} & set(event):
                    event[key]["loss_sum"] = "NaN" if event["epoch"] == 3 else "Infinity"
        broken.end |= {"status": "failed", "failure": "The loss is NaN."}
        yield "without numbers", broken, "failed", "The run failed after 4 of 4 epochs: The loss is NaN."
        many = RunFile(classes=[f"class {number}" for number in range(1000)], epochs=2, valid_per_class=3).judge()
        yield "a thousand classes", many, "finished", "the other 961"
        yield "one epoch of one class", RunFile(classes=["only"], epochs=1), "finished", "There is only one class"
        stopped = RunFile(epochs=2)
        stopped.end["status"] = "stopped"
        perfect = RunFile(epochs=3)
        for event in perfect.events:
            for key in {"train", "valid"} & set(event):
                event[key]["top1"] = event[key]["top5"] = event[key]["images"]
        yield "always right", perfect, "finished", "top-1 is 100\u00a0%"
        yield "stopped", stopped, "stopped by a signal", "stopped by a signal after 2 of 2 epochs"
        yield "long", RunFile(epochs=500, steps=900), "finished", "Training curves"

    def test_several_runs_on_one_page(self):
        runs = [RunFile(epochs=epochs, seed=epochs).write(self.folder / f"{epochs} & <more>") for epochs in (3, 6, 9)]
        page = self.folder / "compare.html"
        self.assertEqual(kiln("compare", *runs, "--output-path", page).returncode, 0)
        self.look_at(page)
        self.assertEqual(self.texts("#runs tbody th"), [str(run) for run in reversed(runs)])
        self.assertEqual(len(self.plotted("Validation top-1", runs[2])), 9)


if __name__ == "__main__":
    main()
