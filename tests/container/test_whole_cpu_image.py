"""The cpu image in both stages, as a user builds it: test_image.py takes the place of the first. At night only: it installs
and builds all."""
from image_case import ImageTest, prepare_at_night
from flow import main


def setUpModule():
    prepare_at_night(lambda engine: engine.build("cpu"))


class WholeCpuImageTest(ImageTest):
    def test_it_is_what_was_promised(self):
        self.assertLess(self.engine.inspect(self.image)["Size"], 720e6)
        self.assertEqual(self.shell("ls /opt/kiln/bin").split(), ["kiln"])

    def test_it_trains_with_two_ranks(self):
        done = self.run_image(*self.train_words(ranks=2))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())


if __name__ == "__main__":
    main()
