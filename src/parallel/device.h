// Which device this process computes on.
//
// GPU support is a module, libkiln_cuda.so beside the program, opened only where an NVIDIA driver
// is. LibTorch caches its CUDA hooks at the first call into it, so `choose_device` must run before
// any other use of LibTorch.
#pragma once

#include <string>

namespace kiln {

enum class DeviceWish { kAuto, kCuda, kCpu };

struct Device {
  bool is_cuda = false;
  int index = 0;
  std::string description;  // "CPU (no NVIDIA device found)", "NVIDIA H200, compute capability 9.0,
                            // driver 580.65"
};

// kAuto takes the CPU only where no NVIDIA device is present. A device that is there and cannot be
// used, or kCuda without one, is Error kFailedToCompleteOperation naming both versions and the
// remedy.
Device choose_device(DeviceWish wish);

// Bytes of GPU memory at most in use so far by this process; 0 on a CPU.
long long peak_device_memory(const Device& device);

// Versions as the loaded libraries give them, for `kiln --version`; empty where a library is
// missing.
struct CudaVersions {
  std::string cuda, cudnn, nccl;
};
CudaVersions cuda_versions();

}  // namespace kiln
