"""Shared by the container tests: the image, and a run of it as a careful user would start it."""
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "flow"))

from engine import LIMITS, Engine
from flow import FlowTest


class ImageTest(FlowTest):
    engine, image, reason_against = None, None, None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.shared_folder.chmod(0o755)

    def setUp(self):
        super().setUp()
        if self.reason_against:
            self.skipTest(self.reason_against)
        self.folder.chmod(0o777)

    def podman_run(self, *arguments, options=(), user="10001", network="none"):
        """The image with nothing to write but /tmp and /out, the test's folder; /in is its data."""
        return self.engine.podman("run", "--read-only", "--network", network, "--tmpfs", "/tmp", "--user", user, *LIMITS,
                                  "--volume", f"{self.shared_folder}:/in:ro", "--volume", f"{self.folder}:/out",
                                  *options, self.image, *arguments)

    def run_image(self, *arguments, options=(), **settings):
        return self.podman_run(*arguments, options=["--rm", *options], **settings)

    def start(self, *arguments, options=(), **settings):
        """The container at work in the background."""
        started = self.podman_run(*arguments, options=["--detach", *options], **settings)
        self.assertEqual(started.returncode, 0, started.stderr)
        container = started.stdout.strip()
        self.addCleanup(self.engine.podman, "rm", "--force", "--time", "0", container)
        return container

    def shell(self, script):
        done = self.run_image("-c", script, options=["--entrypoint", "sh"], user="0")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def train_words(self, **options):
        """Of a training inside, from /in to /out."""
        return self.train_arguments(**{"untrained_model_path": "/in/untrained", "train_data_path": "/in/data/train",
                                       "valid_data_path": "/in/data/val", "trained_model_path": "/out/model",
                                       "log_path": "/out/logs", "threads": 1, **options})


def prepare(build):
    """For setUpModule: `build` makes the image with the engine, where this machine can run one."""
    ImageTest.engine = Engine(pathlib.Path(os.environ["KILN_CONTAINER_CACHE"]))
    unittest.addModuleCleanup(ImageTest.engine.close)
    reason = ImageTest.engine.reason_against()
    if reason:
        ImageTest.reason_against = f"no container here: {reason}"
    else:
        ImageTest.image = build(ImageTest.engine)


def prepare_at_night(build):
    """What CI has no time for by day."""
    if os.environ.get("KILN_NIGHTLY") == "1":
        prepare(build)
    else:
        ImageTest.reason_against = "only with KILN_NIGHTLY=1"
