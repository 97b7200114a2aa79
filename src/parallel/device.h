// Which device this process computes on.
//
// GPU support is a module, libkiln_cuda.so beside the program, opened only where an NVIDIA driver
// is. LibTorch caches its CUDA hooks at the first call into it, so `choose_device` must run before
// any other use of LibTorch.
#pragma once

#include <string>
#include <vector>

#include "base/vocabulary.h"

namespace kiln {

struct Device {
  bool is_cuda = false;
  int index = 0;
  // "CPU (no NVIDIA device found)", "NVIDIA H200, compute capability 9.0, driver 580.65.06, CUDA
  // 13.0"
  std::string description = {};
  std::string uuid = {};                        // "GPU-…"; empty when unknown, and on a CPU
  std::vector<std::string> visible_uuids = {};  // of all GPUs that this process sees
};

// kAuto takes the CPU only where no NVIDIA device is present. A device that is there and cannot be
// used (driver, compute capability, library, module, CUDA runtime), or kCuda without one, is Error
// kFailedToCompleteOperation naming what was found, what is needed, and the remedy. Where it is a
// GPU, the module is open and the CUDA runtime has started on it. kCpu asks no driver.
//
// A process that sees one GPU takes it, otherwise the one at its local rank, counted around:
// whether that gives every rank its own is for gpu_assignment.h, when all ranks have chosen.
Device choose_device(DeviceChoice wish, int local_rank = 0);

// Bytes of GPU memory at most in use so far by this process; 0 on a CPU.
long long peak_device_memory(const Device& device);

// Versions as the loaded libraries give them, for `kiln --version`; empty where a library is
// missing.
struct CudaVersions {
  std::string cuda, cudnn, nccl;
};
CudaVersions cuda_versions();

}  // namespace kiln
