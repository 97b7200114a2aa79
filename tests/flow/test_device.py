"""Which device a run takes, and what it says where an NVIDIA device is there but cannot be used.

The driver is a stand-in (stand_in_driver.cpp) that the real binary finds through LD_LIBRARY_PATH.
"""
import ctypes
import os
import pathlib
import shutil
import subprocess
import unittest

from flow import KILN, FlowTest, main

STAND_IN = pathlib.Path(KILN).parent / "tests/flow/stand_in_driver"
GOOD = {"driver_version": "580.65.06", "cuda_version": "13000"}

# Runs the words after $1 where /dev is the folder $1 with an NVIDIA control device, which is a plain file.
WITH_DEVICE_FILES = """
set -e
dev=$1
shift
for name in null zero random urandom; do touch "$dev/$name"; mount --bind "/dev/$name" "$dev/$name"; done
touch "$dev/nvidiactl"
mkdir -p "$dev/shm"; mount --rbind /dev/shm "$dev/shm"  # what may lie there
mount --rbind "$dev" /dev
exec "$@"
"""


def driver_is_installed():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return os.path.exists("/proc/driver/nvidia/version")
    return True


class DeviceTest(FlowTest):
    def run_with(self, driver, device="auto", program=KILN, libraries=STAND_IN, prefix=()):
        """One training run that sees this driver: settings of the stand-in, by name."""
        self.assertTrue((STAND_IN / "libcuda.so.1").exists(), "the stand-in driver is not built")
        path = ":".join(filter(None, [str(libraries), os.environ.get("LD_LIBRARY_PATH")]))
        settings = {"KILN_STAND_IN_" + name.upper(): value for name, value in driver.items()}
        command = [*map(str, prefix), str(program), *self.train_arguments(device=device)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300,
                              env={**os.environ, **settings, "LD_LIBRARY_PATH": path})

    def assert_refused(self, driver, *words, try_cpu=False, **how):
        """Refused with --device auto and cuda, naming `words` and the remedy; --device cpu trains, tried where asked for
        and at night."""
        for device in ("auto", "cuda"):
            with self.subTest(device=device):
                result = self.run_with(driver, device, **how)
                self.assert_fails(result, 3, 39, *words, "--device cpu")
                self.assertNotIn("KILN_TORCH_ROOT", result.stderr)  # no build takes another LibTorch
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertEqual(self.error_info()["ErrorId"], "FailedToCompleteOperation")
        if try_cpu or os.environ.get("KILN_NIGHTLY") == "1":
            self.assert_trains_on_cpu(self.run_with(driver, "cpu", **how), "CPU,")

    def assert_trains_on_cpu(self, result, description):
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        log = (self.folder / "logs/70_driver_log_0.txt").read_text()
        for text in (result.stdout, log):
            beginning = text[:text.index("Epoch 1,")]
            self.assertRegex(beginning, "device: +" + description)
        shutil.rmtree(self.folder / "model")

    def program_alone(self):
        """The program in a folder without its GPU module; its run path still leads to LibTorch."""
        (self.folder / "program").mkdir()
        shutil.copy(pathlib.Path(KILN).parent / "libkiln.so", self.folder / "program")
        return pathlib.Path(shutil.copy(KILN, self.folder / "program/kiln"))

    def test_driver_older_than_its_cuda(self):
        self.assert_refused({"driver_version": "570.86.10", "cuda_version": "12080"}, "570.86.10", "CUDA 12.8",
                            "CUDA 13.0", "update the driver", try_cpu=True)

    def test_driver_of_unknown_version_that_is_too_old_for_cuda_13(self):
        self.assert_refused({"cuda_version": "12040"}, "CUDA 12.4", "CUDA 13.0")

    def test_driver_that_does_not_start(self):
        self.assert_refused({**GOOD, "init_status": "803"}, "error 803", "said by the stand-in", "580.65.06",
                            "CUDA 13.0 or newer", try_cpu=True)

    def test_an_old_driver_that_does_not_start_is_first_of_all_old(self):
        self.assert_refused({"driver_version": "535.1", "cuda_version": "12020", "init_status": "3"}, "535.1", "CUDA 13.0", "update the driver")

    def test_no_device_takes_the_cpu_and_says_so(self):
        driver = {**GOOD, "devices": "0"}
        self.assert_trains_on_cpu(self.run_with(driver), r"CPU \(no NVIDIA device found\)")
        self.assert_fails(self.run_with(driver, "cuda"), 3, 39, "no NVIDIA device", "CUDA_VISIBLE_DEVICES",
                          "--device cpu")

    @unittest.skipIf(driver_is_installed(), "this machine has an NVIDIA driver")
    def test_no_driver_and_the_toolkits_stub_take_the_cpu(self):
        empty = self.folder / "empty"
        empty.mkdir()
        self.assert_trains_on_cpu(self.run_with({}, libraries=empty), r"CPU \(no NVIDIA device found\)")
        self.assert_trains_on_cpu(self.run_with({"init_status": "34"}), r"CPU \(no NVIDIA device found\)")
        self.assert_fails(self.run_with({}, "cuda", libraries=empty), 3, 39, "no NVIDIA device", "--device cpu")

    def test_missing_module(self):
        program = self.program_alone()
        self.assert_refused(GOOD, "Stand-in GPU", "580.65.06", "for CPUs alone", "libkiln_cuda.so", program=program,
                            try_cpu=True)

    def test_module_that_cannot_be_loaded(self):
        program = self.program_alone()
        (program.parent / "libkiln_cuda.so").write_bytes(b"cut")
        self.assert_refused(GOOD, "libkiln_cuda.so could not be loaded", "file too short", "PyTorch 2.11", program=program,
                            try_cpu=True)

    def test_module_of_another_build(self):
        program = self.program_alone()
        shutil.copy(STAND_IN / "libcuda.so.1", program.parent / "libkiln_cuda.so")
        self.assert_refused(GOOD, "libkiln_cuda.so is from a different build", program=program)

    def test_device_that_the_cuda_runtime_cannot_use(self):
        self.assert_refused(GOOD, "Stand-in GPU", "580.65.06", "CUDA 13.0 cannot use it")

    def test_deterministic_needs_cublas_workspaces_of_fixed_size(self):
        def run(device, workspace):
            return subprocess.run([KILN, *self.train_arguments(device=device, deterministic=True)], capture_output=True,
                                  text=True, timeout=300, env={**os.environ, "CUBLAS_WORKSPACE_CONFIG": workspace})
        self.assert_fails(run("auto", ":0:0"), 1, 2000, "--deterministic", "CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self.assert_trains_on_cpu(run("cpu", ":0:0"), "CPU,")

    @unittest.skipIf(driver_is_installed(), "this machine has an NVIDIA driver")
    def test_device_files_without_the_drivers_library(self):
        dev = self.folder / "dev"
        dev.mkdir()
        unshare = ["unshare", "--mount"] + (["--map-root-user"] if os.geteuid() != 0 else [])
        prefix = [*unshare, "sh", "-c", WITH_DEVICE_FILES, "sh", dev]
        probe = subprocess.run([*map(str, prefix), "true"], capture_output=True, text=True)
        if probe.returncode != 0:
            self.skipTest("no private mount namespace here: " + probe.stderr.strip())
        nvml_only = self.folder / "nvml"
        nvml_only.mkdir()
        shutil.copy(STAND_IN / "libnvidia-ml.so.1", nvml_only)
        self.assert_refused(GOOD, "libcuda.so.1 is missing", "driver 580.65.06", "CUDA 13.0 or newer", "--gpus all",
                            libraries=nvml_only, prefix=prefix)


if __name__ == "__main__":
    main()
