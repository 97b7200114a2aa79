"""Training with --device cuda on the stand-in device, beside --device cpu.

Both compute with the CPU's kernels, so in float32 they write the same weights to the bit.
"""
import json
import os
import unittest.mock

from stand_in import GpuTest, kiln, main


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

    def test_two_ranks_write_the_weights_of_the_cpu(self):
        self.assert_as_on_the_cpu(ranks=2)

    # At 32 pixels, norms over 14 numbers make a thousandth of rounding.
    def losses(self, name, device, fused="0", **options):
        """Of the only epoch, in training and validation."""
        with unittest.mock.patch.dict(os.environ, KILN_FUSED_NORM=fused):
            self.weights(name, device, learning_rate=1e-5, image_size=64, **options)
        lines = (self.folder / f"logs-{name}/metrics.jsonl").read_text().splitlines()
        [epoch] = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
        return epoch["train"]["loss_sum"], epoch["valid"]["loss_sum"]

    # Other operators than a CPU's. In the last step one rank has no image: its statistics count as nothing.
    def test_synchronized_batch_norm_is_that_of_the_cpu(self):
        options = {"ranks": 2, "sync_batch_norm": True, "batch_size": 7}
        right = self.losses("cpu", "cpu", **options)
        for fused in "01":
            for ours, theirs in zip(self.losses(f"gpu-{fused}", "cuda", fused, **options), right, strict=True):
                self.assertAlmostEqual(ours / theirs, 1, delta=2e-4)

    # On emulated kernels; a line says it if they cannot be used. In float64 a step is equal to 1e-10 (gpu.steps.fused_norm_1).
    def test_fused_norms_train_as_the_operators_of_libtorch(self):
        for ours, theirs in zip(self.losses("fused", "cuda", "1"), self.losses("gpu", "cuda"), strict=True):
            self.assertNotEqual(ours, theirs)
            self.assertAlmostEqual(ours / theirs, 1, delta=2e-4)
        self.assertNotIn("cannot be used", (self.folder / "logs-fused/70_driver_log_0.txt").read_text())

    def test_nvml_that_never_returns_does_not_stop_a_run(self):
        for hangs, load in ((0, {"utilization_percent": 40, "power_watts": 123}), (1, None)):
            self.run_kiln(*self.train_arguments(epochs=1), nvml_hangs=hangs)
            lines = (self.folder / "logs/metrics.jsonl").read_text().splitlines()
            [epoch] = [event for event in map(json.loads, lines) if event["event"] == "epoch"]
            self.assertEqual(epoch["gpu"], load)

    def test_ranks_on_slices_of_a_gpu_are_told_to_choose(self):
        result = kiln(*self.train_arguments(ranks=2), environment={"KILN_STAND_IN_MIG": "1"})
        self.assert_fails(result, 1, 2000, "CUDA_VISIBLE_DEVICES=MIG-", "nvidia-smi -L")

    # With CUDA's forward-compatibility package libcuda is newer than the kernel's driver.
    def test_an_older_kernel_driver_below_a_new_libcuda(self):
        self.run_kiln(*self.train_arguments(), driver_version="550.163.01")

    # The stand-in finds what it is for: a wait that is left out changes the weights.
    def test_a_wait_that_is_left_out_is_seen(self):
        right = self.weights("right", "cuda")
        wrong = kiln(*self.train_arguments(precision="fp32", batch_size=8, threads=1),
                     environment={"KILN_STAND_IN_OMIT_WAIT": "1", "KILN_STAND_IN_COPY_US": "50000"})
        self.assertFalse(wrong.returncode == 0 and (self.folder / "model/model.safetensors").read_bytes() == right)


if __name__ == "__main__":
    main()
