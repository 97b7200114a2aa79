#!/usr/bin/env python3
"""environment/publish.sh up to the upload, and the workflow that calls it."""
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from release_case import BUILD, ROOT, ReleaseTest, main, start_engine

NIGHTLY = os.environ.get("KILN_NIGHTLY") == "1"
VERSION = re.search(r"^project\(kiln VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


class PublishTest(ReleaseTest):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="kiln-release-")))
        self.clone = self.folder / "clone"
        self.git("clone", "--quiet", ROOT, self.clone, cwd=ROOT)
        self.out = self.folder / "out"

    def git(self, *words, cwd=None):
        author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *author, *words], cwd=cwd or self.clone, check=True, capture_output=True)

    def date_the_changelog(self):
        changelog = self.clone / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace(f"## {VERSION} (not released yet)", f"## {VERSION} (2026-12-01)"))
        self.git("commit", "--quiet", "--allow-empty", "--all", "--message", "A release")

    def publish(self, tag, *words, **settings):
        return subprocess.run([self.clone / "environment/publish.sh", tag, self.out, *words], capture_output=True, text=True,
                              env={**os.environ, **settings})

    def assert_refused(self, done, *told):
        self.assertEqual(done.returncode, 1, done.stderr)
        for word in told:
            self.assertIn(word, done.stdout + done.stderr)
        self.assertFalse(self.out.exists())

    def test_what_is_not_that_release_is_refused(self):
        tag = f"v{VERSION}"
        self.assert_refused(self.publish("v9.9.9"), "v9.9.9", tag)
        self.assert_refused(self.publish(tag), "not what is checked out")
        self.git("tag", tag)
        if f"## {VERSION} (not released yet)" in (self.clone / "CHANGELOG.md").read_text():
            self.assert_refused(self.publish(tag), "CHANGELOG.md")
        self.date_the_changelog()
        self.assert_refused(self.publish(tag), "not what is checked out")
        self.git("tag", "--force", tag)
        tools = self.folder / "tools"
        tools.mkdir()
        for name in ("gh", "twine", "podman"):
            (tools / name).write_text("#!/bin/sh\nexit 1\n")
            (tools / name).chmod(0o755)
        self.assert_refused(self.publish(tag, "--upload", PATH=f"{tools}:{os.environ['PATH']}", ENGINE="podman", REGISTRY=""),
                            "REGISTRY")
        self.out.mkdir()
        (self.out / "old.whl").touch()
        self.assertIn("not empty", self.publish(tag).stderr)

    @unittest.skipUnless(NIGHTLY, "only with KILN_NIGHTLY=1")
    def test_all_forms_are_made(self):
        start_engine()
        self.date_the_changelog()
        self.git("tag", "--force", f"v{VERSION}")
        done = self.publish(f"v{VERSION}", **self.engine.environment, KILN_BUILD=str(BUILD))
        self.assert_done(done)
        self.assertNotIn("uploaded", done.stdout)
        names = {path.name for path in self.out.iterdir()}
        for form in ("linux-x86_64-cpu", "linux-x86_64-cuda", "cpu-image", "cuda-image"):
            self.assertIn(f"kiln-{VERSION}-{form}.cdx.json", names)
        for start in ("linux-x86_64-cpu.tar.gz", "linux-x86_64-cuda.tar.gz", "cpu.oci.tar", "cuda.oci.tar"):
            self.assertTrue([name for name in names if name.startswith(f"kiln-{VERSION}-{start}")], start)
        self.assertIn(f"kiln_trainer-{VERSION}-py3-none-manylinux_2_34_x86_64.whl", names)
        self.assertTrue((self.out / "RELEASE.md").read_text().strip())
        self.assertEqual(subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=self.out).returncode, 0)
        listed = {line.split()[1] for line in (self.out / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(listed, names - {"RELEASE.md", "SHA256SUMS"})

    def test_the_workflow_calls_it(self):
        text = (ROOT / ".github/workflows/release.yml").read_text()
        called = re.findall(r"environment/\w+\.sh", text)
        self.assertEqual(called, ["environment/install.sh", "environment/publish.sh"])
        for name in called:
            self.assertTrue(os.access(ROOT / name, os.X_OK), name)
        told = (ROOT / "docs/releasing.md").read_text()
        for name in re.findall(r"(?:vars|secrets)\.(\w+)", text):
            self.assertIn(f"`{name}`", told)


if __name__ == "__main__":
    main()
