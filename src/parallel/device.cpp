#include "parallel/device.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "cuda/module.h"
#include "parallel/nvidia_driver.h"

namespace kiln {
namespace {

constexpr int kLeastDriver = 580;  // the first branch that runs CUDA 13
constexpr int kLeastCapability = 75;
constexpr const char* kRemedy =
    " Use --device cpu, or build kiln with a LibTorch for older GPUs (KILN_TORCH_ROOT).";

[[noreturn]] void refuse(const std::string& found) {
  throw Error(ErrorCode::kFailedToCompleteOperation, found + kRemedy);
}

std::string module_path() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libkiln_cuda.so")
      .string();
}

// The module stays open for the life of the process, as LibTorch's hooks point into it.
const CudaModule* open_module(std::string* fault) {
  void* library = ::dlopen(module_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    *fault = ::dlerror();
    return nullptr;
  }
  using Entry = const CudaModule*();
  auto* entry = reinterpret_cast<Entry*>(::dlsym(library, kCudaModuleSymbol));
  const CudaModule* module = entry == nullptr ? nullptr : entry();
  if (module == nullptr || module->version != kCudaModuleVersion) {
    *fault = "libkiln_cuda.so is of another build of kiln";
    return nullptr;
  }
  return module;
}

// Throws unless the device can be used; says nothing about the module.
void require_usable(const NvidiaDriver& driver) {
  if (!driver.library)
    refuse(
        "An NVIDIA device is there, but the driver's library libcuda.so.1 is missing (in a "
        "container: start it "
        "with --gpus all).");
  if (!driver.fault.empty()) {
    const std::string version = driver.version.empty() ? "of unknown version" : driver.version;
    refuse("An NVIDIA device is there, but " + driver.fault + " (driver " + version +
           "; kiln needs " + std::to_string(kLeastDriver) + " or newer).");
  }
  if (!driver.version.empty() && std::atoi(driver.version.c_str()) < kLeastDriver)
    refuse("The NVIDIA driver is " + driver.version + ", but this LibTorch (CUDA 13) needs " +
           std::to_string(kLeastDriver) + " or newer: update the driver.");
  if (driver.capability_major * 10 + driver.capability_minor < kLeastCapability)
    refuse("The GPU '" + driver.name + "' has compute capability " +
           std::to_string(driver.capability_major) + "." + std::to_string(driver.capability_minor) +
           ", but this LibTorch needs 7.5 or higher.");
}

}  // namespace

Device choose_device(DeviceWish wish) {
  if (wish == DeviceWish::kCpu) return {.description = "CPU"};
  const NvidiaDriver driver = ask_nvidia_driver();
  const bool present =
      driver.num_devices > 0 || !driver.fault.empty() || (driver.device_files && !driver.library);
  if (!present) {
    if (wish == DeviceWish::kCuda)
      refuse("--device cuda was asked for, but no NVIDIA device is visible to this process.");
    return {.description = "CPU (no NVIDIA device found)"};
  }
  require_usable(driver);
  std::string fault;
  if (open_module(&fault) == nullptr)
    refuse("The GPU '" + driver.name + "' is there, but GPU support could not be loaded: " + fault +
           ".");
  return {.is_cuda = true,
          .index = 0,
          .description = driver.name + ", compute capability " +
                         std::to_string(driver.capability_major) + "." +
                         std::to_string(driver.capability_minor) + ", driver " + driver.version};
}

long long peak_device_memory(const Device& device) {
  std::string fault;
  const CudaModule* module = device.is_cuda ? open_module(&fault) : nullptr;
  return module == nullptr ? 0 : module->peak_memory_bytes(device.index);
}

CudaVersions cuda_versions() {
  std::string fault;
  const CudaModule* module = open_module(&fault);
  if (module == nullptr) return {};
  const int cuda = module->runtime_version();
  const long cudnn = module->cudnn_version();
  const int nccl = module->nccl_version();
  const auto dotted = [](long major, long minor, long patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  return {std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10),
          dotted(cudnn / 10000, cudnn % 10000 / 100, cudnn % 100),
          dotted(nccl / 10000, nccl % 10000 / 100, nccl % 100)};
}

}  // namespace kiln
