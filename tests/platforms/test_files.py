"""Files and tables in the repository are what `kiln describe` prints. KILN_RENEW=1 writes them anew."""
import json
import os
import re
import subprocess
import unittest

from platforms import COMPONENTS, KILN, KUBEFLOW, ROOT, describe, main

README_TABLE = re.compile(r"(<!-- options:([a-z -]+) -->\n)(.*?)(\n<!-- /options -->)", re.S)


class CommittedTest(unittest.TestCase):
    def check(self, path, expected):
        if os.environ.get("KILN_RENEW") == "1":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected)
        self.assertTrue(path.exists(), f"{path} is missing: KILN_RENEW=1 python3 {__file__}")
        self.assertEqual(path.read_text(), expected, f"{path} is old: KILN_RENEW=1 python3 {__file__}")

    def test_components(self):
        for files, format_name in ((COMPONENTS, "component"), (KUBEFLOW, "kubeflow")):
            for command, path in files.items():
                with self.subTest(path=path):
                    self.check(ROOT / path, describe(format_name, "--command", command))

    def test_no_component_is_left_over(self):
        found = {str(path.relative_to(ROOT)) for path in (ROOT / "components").rglob("*.yaml")}
        self.assertEqual(found, set(COMPONENTS.values()) - {"component.yaml"} | set(KUBEFLOW.values()))

    def test_tables_of_the_readme(self):
        readme = (ROOT / "README.md").read_text()
        self.assertIn("<!-- options:train -->", readme)
        renewed = README_TABLE.sub(lambda found: found[1] + describe("markdown", "--command", found[2]) + found[4], readme)
        self.check(ROOT / "README.md", renewed)


class DescribeTest(unittest.TestCase):
    def refuse(self, *arguments):
        done = subprocess.run([KILN, "describe", *arguments], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_the_image_is_the_callers(self):
        self.assertIn('image: "registry.example/kiln:9"', describe("component", "--image", "registry.example/kiln:9"))

    def test_metrics_are_json(self):
        metrics = json.loads(describe("sagemaker-metrics"))
        self.assertEqual({tuple(metric) for metric in metrics}, {("Name", "Regex")})

    def test_bad_requests(self):
        self.assertIn("--format", self.refuse())
        self.assertIn("component, kubeflow", self.refuse("--format", "helm"))
        self.assertIn("cannot be a pipeline step", self.refuse("--format", "component", "--command", "inspect"))
        self.assertIn("Did you mean", self.refuse("--format", "component", "--command", "tran"))


if __name__ == "__main__":
    main()
