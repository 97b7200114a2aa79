"""`import kiln_trainer`: trains, answers and says what is wrong; an interrupt saves the model; in a notebook's kernel, too."""
import csv
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "python"))

import kiln_trainer as kiln_python  # noqa: E402
from flow import KILN, FlowTest, kiln, main  # noqa: E402

SCRIPT = """
import sys
import kiln_trainer as kiln
run = kiln.train({data!r}, run_path={run!r}, epochs=500, device="cpu", threads=1, batch_size=8, fit="crop")
print("returned", run.was_stopped, run.model_path.name, len(run.epochs) > 0, flush=True)
"""


class PythonTest(FlowTest):
    def setUp(self):
        super().setUp()
        os.environ["KILN"] = KILN
        self.photos = sorted(path for path in (self.data / "val").rglob("*") if path.is_file())

    def test_train_predict_and_evaluate(self):
        run = kiln_python.train(self.data / "train", self.data / "val", epochs=2, run_path=self.folder / "run", device="cpu",
                                untrained_model_path=self.untrained, quiet=True)
        self.assertEqual([epoch["epoch"] for epoch in run.epochs], [1, 2])
        self.assertFalse(run.was_stopped)
        self.assertTrue(run.report.is_file())
        self.assertIn("srcdoc=", run._repr_html_())
        with run.model as model:
            answers = model.predict(self.photos)
            scored = [json.loads(line) for line in
                      kiln("score", self.data / "val", "--trained-model-path", run.model_path, "--json").stdout.splitlines()]
            by_name = {row["path"]: row["label"] for row in scored}
            self.assertEqual([answer.label for answer in answers],
                             [by_name[str(photo.relative_to(self.data / "val"))] for photo in self.photos])
            self.assertAlmostEqual(sum(answers[0].probabilities.values()), 1, places=4)
            server = model._server
            self.assertEqual(server.folder.stat().st_mode & 0o777, 0o700)
            bad, good = model.predict([b"no image", self.photos[0].read_bytes()])
            self.assertIsNone(bad.label)
            self.assertIn("not an image", bad.fault)
            self.assertEqual(good.label, answers[0].label)
            for alone in (self.photos[0], str(self.photos[0]), self.photos[0].read_bytes()):
                self.assertEqual([answer.label for answer in model.predict(alone)], [good.label])
            kiln("embed", self.data / "val", "--trained-model-path", run.model_path, "--output-path", self.folder / "rows.csv")
            with open(self.folder / "rows.csv", newline="") as file:
                table = {row.pop("path"): [float(value) for value in row.values()] for row in csv.DictReader(file)}
            rows = model.embed(self.photos, device="cpu")
            self.assertEqual({len(row) for row in rows}, {512})
            for photo, row in zip(self.photos, rows, strict=True):
                for value, expected in zip(row, table[str(photo.relative_to(self.data / "val"))], strict=True):
                    self.assertAlmostEqual(value, expected, places=4)
            for alone in (iter(self.photos[:1]), self.photos[0], str(self.photos[0])):
                self.assertEqual(len(model.embed(alone, device="cpu")), 1)
            self.assertEqual([len(row) for row in model.embed([self.data / "val"], device="cpu")], [512] * len(self.photos))
            with self.assertRaisesRegex(kiln_python.Error, "nowhere.jpg"):
                model.embed([self.photos[0], "nowhere.jpg"])
            measured = model.evaluate(self.data / "val", device="cpu")
            self.assertEqual(measured["images"], len(self.photos))
            self.assertTrue(0 <= measured["top1"] <= 1)
        self.assertIsNotNone(server.process.poll())
        self.assertFalse(server.folder.exists())

    def test_arrays(self):
        gray = memoryview(bytes(range(64))).cast("B", (8, 8))
        color = memoryview(bytes(range(192))).cast("B", (8, 8, 3))
        with kiln_python.Model(self.trained_model, device="cpu", min_confidence=0.999999) as model:
            for answer in model.predict([gray, color]):
                self.assertIsNone(answer.fault)
                self.assertIsNone(answer.label)
                self.assertIn(answer.guess, answer.probabilities)
            for wrong in (memoryview(bytes(8)).cast("B", (2, 2, 2)), memoryview(bytes(16)).cast("f", (2, 2))):
                with self.assertRaises(TypeError):
                    model.predict([wrong])

    def test_errors_have_code_and_remedy(self):
        (self.folder / "empty").mkdir()
        for code, words, call in (
                (18, "empty", lambda: kiln_python.train(self.folder / "empty", quiet=True, log_path=self.folder / "logs")),
                (2, "--epochs", lambda: kiln_python.train(self.data / "train", epocs=3, quiet=True)),
                (159, "untrained", lambda: kiln_python.Model(self.untrained).predict(self.photos[:1]))):
            with self.subTest(code), self.assertRaises(kiln_python.Error) as caught:
                call()
            self.assertEqual(caught.exception.code, code, caught.exception)
            self.assertIn(words, caught.exception.message)
            self.assertTrue(caught.exception.remedy)
            self.assertIn(caught.exception.remedy, caught.exception.message)

    def test_an_interrupt_saves_the_model(self):
        script = SCRIPT.format(data=str(self.data / "train"), run=str(self.folder / "run"))
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        lines = []
        for line in iter(process.stdout.readline, ""):
            lines.append(line)
            if line.startswith("Epoch 1"):
                process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=60), 0, "".join(lines))
        self.assertEqual(lines[-1], "returned True model True\n", "".join(lines))

    def test_a_server_ends_with_its_python(self):
        script = ("import kiln_trainer as kiln, time; m = kiln.Model({!r}, device='cpu'); m.predict([]); "
                  "print(m._server.process.pid, flush=True); time.sleep(600)").format(str(self.trained_model))
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True,
                                   env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
        self.addCleanup(process.stdout.close)
        server = int(process.stdout.readline())
        process.kill()
        process.wait()
        until = time.monotonic() + 20
        while pathlib.Path(f"/proc/{server}").exists() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(pathlib.Path(f"/proc/{server}").exists())

    def test_in_a_notebook(self):
        """A real kernel: lines come while training goes on, an interrupt returns the run, and its report is shown."""
        packages = ROOT / ".deps/notebook"
        if not packages.is_dir():
            self.skipTest("no kernel of Jupyter here: environment/install.sh installs one")
        sys.path.insert(0, str(packages))
        from jupyter_client.manager import KernelManager
        manager = KernelManager()
        manager.kernel_spec_manager.kernel_dirs = []
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), str(ROOT / "python")])}
        manager.start_kernel(env=environment, cwd=str(self.folder))
        self.addCleanup(manager.shutdown_kernel, now=True)
        client = manager.client()
        client.start_channels()
        self.addCleanup(client.stop_channels)
        client.wait_for_ready(timeout=60)
        client.execute(SCRIPT.format(data=str(self.data / "train"), run=str(self.folder / "run")) + "run")
        text, shown, is_interrupted = "", "", False
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                content = client.get_iopub_msg(timeout=5)["content"]
            except queue.Empty:
                continue
            text += content.get("text", "") + "".join(content.get("traceback", []))
            shown = content.get("data", {}).get("text/html", shown)
            if "Epoch 1" in text and not is_interrupted:
                manager.interrupt_kernel()
                is_interrupted = True
            if content.get("execution_state") == "idle" and is_interrupted:
                break
        self.assertIn("returned True model True", text)
        self.assertIn("<iframe", shown)


if __name__ == "__main__":
    main()
