"""Training with --device cuda on the stand-in device, beside --device cpu.

Both compute with the CPU's kernels, so in float32 they write the same weights to the bit: with the CPU's operators for
normalization, and with LibTorch's, which are a GPU's.
"""
import json
import os
import unittest.mock

from stand_in import GpuTest, main


LIBTORCHS_NORMS = unittest.mock.patch.dict(os.environ, KILN_FUSED_NORM="0")


class TrainingTest(GpuTest):
    def weights(self, name, device, **options):
        model = self.folder / name
        self.run_kiln(*self.train_arguments(trained_model_path=model, log_path=self.folder / f"logs-{name}", device=device,
                                            **{"precision": "fp32", "batch_size": 8, "threads": 1, **options}))
        return (model / "model.safetensors").read_bytes()

    # Of images so large that no map has few pixels, for which a CPU has another way (model/small_map_convolution.h).
    def assert_as_on_the_cpu(self, **options):
        options["image_size"] = 72
        self.assertEqual(self.weights("gpu", "cuda", **options), self.weights("cpu", "cpu", **options))

    def test_one_rank_writes_the_weights_of_the_cpu(self):
        self.assert_as_on_the_cpu()
        log = (self.folder / "logs-gpu/70_driver_log_0.txt").read_text()
        self.assertRegex(log, "device: +NVIDIA Stand-in GPU, compute capability 9.0, driver 580.65.06, CUDA 13.0")

    @LIBTORCHS_NORMS
    def test_one_rank_writes_the_weights_of_the_cpu_with_libtorchs_norms(self):
        self.assert_as_on_the_cpu()

    def test_two_ranks_write_the_weights_of_the_cpu(self):
        self.assert_as_on_the_cpu(ranks=2)

    # Other operators than a CPU's. In the last step one rank has no image: its statistics count as nothing.
    @LIBTORCHS_NORMS
    def test_synchronized_batch_norm_is_that_of_the_cpu(self):
        losses = []
        for device in ("cuda", "cpu"):  # at 32 pixels, norms over 14 numbers make a thousandth of rounding
            self.weights(device, device, ranks=2, sync_batch_norm=True, batch_size=7, learning_rate=1e-5, image_size=64)
            lines = (self.folder / f"logs-{device}/metrics.jsonl").read_text().splitlines()
            [epoch] = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
            losses += [epoch["train"]["loss_sum"], epoch["valid"]["loss_sum"]]
        for ours, theirs in zip(losses[:2], losses[2:], strict=True):
            self.assertAlmostEqual(ours / theirs, 1, delta=2e-4)

    # With CUDA's forward-compatibility package libcuda is newer than the kernel's driver.
    def test_an_older_kernel_driver_below_a_new_libcuda(self):
        self.run_kiln(*self.train_arguments(), driver_version="550.163.01")

    # The stand-in finds what it is for: a wait that is left out changes the weights.
    def test_a_wait_that_is_left_out_is_seen(self):
        right = self.weights("right", "cuda")
        self.run_kiln(*self.train_arguments(precision="fp32", batch_size=8, threads=1), omit_wait=1, copy_us=50000)
        self.assertNotEqual((self.folder / "model/model.safetensors").read_bytes(), right)


if __name__ == "__main__":
    main()
