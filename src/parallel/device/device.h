// Which device this process computes on.
//
// GPU support is a module, libkiln_cuda.so beside the program, opened only where an NVIDIA driver
// is. LibTorch caches its CUDA hooks at the first call into it, so `choose_device` must run before
// any other use of LibTorch.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/vocabulary.h"
#include "cuda/module.h"

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

// The door to libkiln_cuda.so, GPU support beside the program.

// Opens the module at the first call; it stays open for the life of the process, as LibTorch's
// hooks point into it. nullptr with a `fault` where it cannot be loaded or is of another build.
const CudaModule* open_cuda_module(std::string* fault);

// Whether the ranks of a job have a GPU each. Pure functions over what every rank found, gathered
// from all; a rank's place in the list is its number.
struct RankDevice {
  std::string host = {};
  bool is_cuda = false;
  std::string chosen = {};  // UUID of the GPU it computes on; empty when unknown
  std::vector<std::string> visible =
      {};  // UUIDs of all GPUs that it sees; empty texts when unknown
};

// All reasons why these ranks cannot train together, each Error kUserError, so exit code 1:
// more ranks on a host than GPUs, which are the distinct UUIDs that its ranks see together; two
// ranks on one GPU; ranks on CPUs beside ranks on GPUs. Empty for ranks on CPUs alone.
Problems find_gpu_problems(const std::vector<RankDevice>& ranks);

// "2 of the 4 GPUs of host node7 stay idle", one a host where it is so.
std::vector<std::string> find_idle_gpus(const std::vector<RankDevice>& ranks);

}  // namespace kiln
