"""The unit tests' GPU cases and the pair test of NCCL's communicator, on the stand-in device."""
import unittest

from stand_in import main, run_program


class UnitsTest(unittest.TestCase):
    def assert_passes(self, program, *words, skipped=()):
        result = run_program(program, *words)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        found = {line.split()[3] for line in result.stdout.splitlines() if line.startswith("[  SKIPPED ]") and "ms)" in line}
        self.assertEqual(found, set(skipped))

    def test_module(self):
        self.assert_passes("kiln_parallel_test", "--gtest_filter=CudaModule*",
                           skipped=["CudaModuleTest.ACommunicatorWithoutAGpuIsRefused"])

    def test_uploader(self):
        self.assert_passes("kiln_loader_device_uploader_test")

    def test_gradient_buckets(self):
        self.assert_passes("kiln_gradient_buckets_test")

    def test_fused_norm(self):
        self.assert_passes("kiln_fused_norm_test")

    def test_pair(self):
        self.assert_passes("kiln_nccl_pair_test")


if __name__ == "__main__":
    main()
