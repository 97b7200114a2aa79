"""The cuda image in both stages, as a user builds it: everything in it that NVIDIA's libraries open by name, its size, and
a run on the CPU. At night only: it installs and builds all, takes half an hour and 20 GB while it is made."""
from image_case import ImageTest, prepare_at_night
from flow import main

OPENED_BY_NAME = ("libcudnn_adv.so.9", "libcudnn_cnn.so.9", "libcudnn_engines_precompiled.so.9",
                  "libcudnn_engines_runtime_compiled.so.9", "libcudnn_graph.so.9", "libcudnn_heuristic.so.9",
                  "libcudnn_ops.so.9", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0", "libcaffe2_nvrtc.so",
                  "libtorch_cuda_linalg.so", "libcusolver.so.12", "libkiln.so", "libkiln_cuda.so", "libkiln_arrow.so",
                  "libkiln_onednn.so", "libkiln_pictures.so")


def setUpModule():
    prepare_at_night(lambda engine: engine.build("cuda"))


class CudaImageTest(ImageTest):
    def test_it_is_complete_and_no_larger_than_promised(self):
        self.assertEqual(set(OPENED_BY_NAME) - set(self.shell("ls /opt/kiln/lib").split()), set())
        self.assertLess(self.engine.inspect(self.image)["Size"], 4.0e9)

    def test_its_label_names_the_license_of_nvidia(self):
        labels = self.engine.inspect(self.image)["Config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0 AND LicenseRef-NVIDIA-Proprietary")

    def test_it_knows_its_libraries(self):
        versions = self.run_image("--version")
        self.assertEqual(versions.returncode, 0, versions.stderr)
        self.assertNotIn("not installed", versions.stdout)

    def test_it_trains_without_a_gpu(self):
        done = self.run_image(*self.train_words(device="auto", ranks=2))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue((self.folder / "model/_meta.yaml").exists())


if __name__ == "__main__":
    main()
