"""Results for programs: --json puts one object, and nothing else, on standard output; --at-least is an exit code."""
import json
import shutil

from flow import FlowTest, files_below, kiln, main


class JsonTest(FlowTest):
    def printed(self, *words, code=0, **settings):
        result = kiln(*words, cwd=self.folder, **settings)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertTrue(result.stderr)
        return json.loads(result.stdout)

    def evaluate(self, *options, **settings):
        return self.printed("evaluate", self.data / "val", "--trained-model-path", self.trained_model, "--device", "cpu", "--json",
                            *options, **settings)

    def test_evaluate(self):
        found = self.evaluate()
        self.assertEqual(found, json.loads((self.folder / "evaluation/evaluation.json").read_text()))
        self.assertIn("top1", found["models"][0])

    def test_evaluate_as_a_gate(self):
        top1 = self.evaluate()["models"][0]["top1"]
        self.evaluate("--at-least", f"top1={top1}", "--at-least", "macro_recall=0.01%")
        for floor, name in ((f"top1={min(1, top1 + .01)}", "top1"), ("micro_f1=0.1", "micro_f1")):
            shutil.rmtree(self.folder / "evaluation")
            result = kiln("evaluate", self.data / "val", "--trained-model-path", self.trained_model, "--device", "cpu",
                          "--at-least", floor, cwd=self.folder)
            self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
            self.assert_names(result.stdout, "--at-least " + name)
            self.assertTrue((self.folder / "evaluation/evaluation.json").is_file())
        for floor in ("top1", "top1=", "top1=2", "accuracy=0.9", "=0.9"):
            result = kiln("evaluate", self.data / "val", "--at-least", floor)
            self.assertIn(result.returncode, (1, 2))
            self.assertIn("--at-least", result.stderr)

    def test_score(self):
        result = kiln("score", self.data / "val", "--trained-model-path", self.trained_model, "--json", "--top-k", 2)
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(rows), len(files_below(self.data / "val")))
        self.assertIn("confidence_2", rows[0])
        self.assert_refused(kiln("score", self.data / "val", "--json", "--output-path", self.folder / "scores.csv"), 2, "--json")

    def test_train_compare_and_audit(self):
        words = self.train_arguments(log_path=self.folder / "one", trained_model_path=self.folder / "model")
        found = self.printed(*words, "--json")
        self.assertEqual(found["model"], str(self.folder / "model"))
        self.assertEqual(found["logs"], str(self.folder / "one"))
        self.assertEqual(found["training"], json.loads((self.folder / "model/training.json").read_text()))
        failed = kiln(*words, "--json", "--learning-rate", "1e30", "--trained-model-path", self.folder / "none")
        self.assertNotEqual(failed.returncode, 0)
        self.assertEqual(failed.stdout, "")
        both = self.printed("compare", self.folder / "one", self.folder / "one", "--json")
        self.assertEqual([run["status"] for run in both["runs"]], ["finished", "finished"])
        audited = self.printed("audit", "--data-path", self.data / "train", "--trained-model-path", self.trained_model, "--device",
                               "cpu", "--json")
        self.assertEqual(audited, json.loads((self.folder / "audit/audit.json").read_text()))
        self.assertTrue(json.loads(kiln("inspect", self.folder / "model", "--json").stdout))

    def test_ranks(self):
        found = self.printed(*self.train_arguments(batch_size=8), "--json", "--ranks", 2)
        self.assertEqual(len(found["training"]["epochs"]), 1)

    def test_a_failure_has_a_file_of_its_own(self):
        place = self.folder / "why.json"
        result = kiln("evaluate", self.folder / "missing", "--json", environment={"KILN_ERROR_INFO": str(place)})
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.returncode, 1)
        told = json.loads(place.read_text())["Exception"]
        self.assertIn("missing", told["Message"])
        self.assertEqual(told["ErrorCode"], 2000)

    def test_export_by_a_bare_path(self):
        for options, name in (((), "model.onnx"), (("--format", "torchvision"), "model.pth")):
            result = kiln("export", self.trained_model, *options, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue((self.folder / name).is_file())
        self.assert_refused(kiln("export", self.trained_model, cwd=self.folder), 3, "model.onnx")


if __name__ == "__main__":
    main()
