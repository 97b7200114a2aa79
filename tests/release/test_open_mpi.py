#!/usr/bin/env python3
"""The archive beside Debian's own Open MPI: which mpirun starts it, and whose plug-ins it uses. Without a container."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from release_case import made, main, require_night


class ForeignOpenMpiTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="kiln-release-"))
        self.addCleanup(shutil.rmtree, self.folder)
        subprocess.run(["tar", "xzf", made("*.tar.gz", "archive"), "-C", self.folder, "--strip-components=1"], check=True)
        self.kiln = self.folder / "bin/kiln"
        self.call(self.kiln, "demo-data", "--output-path", "data", "--images", 60)
        self.call(self.kiln, "init-model", "resnet18", "--untrained-model-path", "untrained")
        self.train = [self.kiln, "train", "--untrained-model-path", "untrained", "--train-data-path", "data/train",
                      "--valid-data-path", "data/val", "--trained-model-path", "model", "--epochs", 1, "--batch-size", 12]

    def call(self, *words, **settings):
        done = subprocess.run([*map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **settings})
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout + done.stderr

    def test_its_own_mpirun_comes_first(self):
        self.call(*self.train, "--ranks", 2)
        calls = (self.folder / "logs/70_mpi_log.txt").read_text()
        self.assertIn(f"{self.folder}/lib/openmpi/bin/mpirun ", calls)

    def test_another_mpirun_starts_it_and_it_uses_its_own_plugins(self):
        mpirun = shutil.which("mpirun")
        if mpirun is None:
            self.skipTest("no mpirun here")
        self.call(mpirun, "--oversubscribe", "-np", 2, *self.train, "--expect-ranks", 2, OMPI_ALLOW_RUN_AS_ROOT="1",
                  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", LD_DEBUG="files", LD_DEBUG_OUTPUT=str(self.folder / "opened"))
        ranks = [text for text in (path.read_text() for path in self.folder.glob("opened.*"))
                 if "mca_btl_vader" in text and "libtorch_cpu" in text]
        self.assertEqual(len(ranks), 2)
        for text in ranks:
            self.assertIn(f"file={self.folder}/lib/openmpi/lib/", text)
            self.assertNotIn("file=/usr/lib/x86_64-linux-gnu/openmpi/", text)

    def test_ranks_of_another_version_are_refused(self):
        done = subprocess.run([*map(str, self.train)], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_VERSION": "5.0.11"})
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("5.0.11", done.stderr)


if __name__ == "__main__":
    require_night()
    main()
