#include "parallel/device.h"

#include <cstdlib>

#include "base/error.h"
#include "parallel/cuda_module.h"
#include "parallel/nvidia_driver.h"

namespace kiln {
namespace {

constexpr int kLeastDriver = 580;  // the first branch that runs CUDA 13
constexpr int kLeastCuda = 13000;
constexpr int kLeastCapability = 75;
constexpr const char* kNeeded = "this LibTorch needs driver 580 or newer (CUDA 13.0)";

[[noreturn]] void refuse(const std::string& sentence) {
  throw Error(ErrorCode::kFailedToCompleteOperation, sentence + " Or use --device cpu.");
}

std::string cuda_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// "driver 570.86.10, CUDA 12.8", as far as it is known.
std::string describe(const NvidiaDriver& driver) {
  return "driver " + (driver.version.empty() ? "of unknown version" : driver.version) +
         (driver.cuda_version > 0 ? ", CUDA " + cuda_text(driver.cuda_version) : "");
}

std::string capability_text(const NvidiaDriver& driver) {
  return "compute capability " + std::to_string(driver.capability_major) + "." +
         std::to_string(driver.capability_minor);
}

bool too_old(const NvidiaDriver& driver) {
  return (!driver.version.empty() && std::atoi(driver.version.c_str()) < kLeastDriver) ||
         (driver.cuda_version > 0 && driver.cuda_version < kLeastCuda);
}

// Throws unless the driver and this process's device can be used; says nothing about the module.
void require_usable(const NvidiaDriver& driver) {
  if (too_old(driver))
    refuse("The NVIDIA driver is too old (" + describe(driver) + "); " + kNeeded +
           ": update the driver.");
  if (!driver.library)
    refuse("An NVIDIA device is there (" + describe(driver) +
           "), but the driver's library libcuda.so.1 is missing; " + kNeeded +
           ": install it, or start a container with --gpus all.");
  if (!driver.fault.empty())
    refuse("The NVIDIA driver cannot be used (" + describe(driver) + "): " + driver.fault + "; " +
           kNeeded + ": see what nvidia-smi says.");
  if (driver.capability_major * 10 + driver.capability_minor < kLeastCapability)
    refuse("The GPU '" + driver.name + "' has " + capability_text(driver) +
           ", but this LibTorch needs 7.5 or higher.");
}

// Opens GPU support and starts the CUDA runtime with it.
void require_module(const NvidiaDriver& driver) {
  const std::string gpu = "The GPU '" + driver.name + "' is there (" + describe(driver) + "), but ";
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr)
    refuse(gpu + "kiln's GPU module libkiln_cuda.so could not be loaded: " + fault + "; " +
           kNeeded + " and the module of the same build beside the program.");
  if (const char* refusal = module->device_fault(driver.index); refusal != nullptr)
    refuse(gpu + "CUDA " + cuda_text(module->runtime_version()) + " cannot use it: " + refusal +
           "; " + kNeeded + ": see what nvidia-smi says.");
}

}  // namespace

Device choose_device(DeviceChoice wish, int local_rank) {
  if (wish == DeviceChoice::kCpu) return {.description = "CPU"};
  const NvidiaDriver driver = ask_nvidia_driver(local_rank);
  const bool present =
      driver.num_devices > 0 || !driver.fault.empty() || (driver.device_files && !driver.library);
  if (!present) {
    if (wish == DeviceChoice::kCuda)
      refuse(std::string("--device cuda was asked for, but this process sees no NVIDIA device; ") +
             kNeeded + ": check CUDA_VISIBLE_DEVICES, or start a container with --gpus all.");
    return {.description = "CPU (no NVIDIA device found)"};
  }
  require_usable(driver);
  require_module(driver);
  return {.is_cuda = true,
          .index = driver.index,
          .description = driver.name + ", " + capability_text(driver) + ", " + describe(driver),
          .uuid = driver.uuids[static_cast<std::size_t>(driver.index)],
          .visible_uuids = driver.uuids};
}

long long peak_device_memory(const Device& device) {
  std::string fault;
  const CudaModule* module = device.is_cuda ? open_cuda_module(&fault) : nullptr;
  return module == nullptr ? 0 : module->peak_memory_bytes(device.index);
}

CudaVersions cuda_versions() {
  std::string fault;
  const CudaModule* module = open_cuda_module(&fault);
  if (module == nullptr) return {};
  const long cudnn = module->cudnn_version();
  const int nccl = module->nccl_version();
  const auto dotted = [](long major, long minor, long patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
  };
  return {cuda_text(module->runtime_version()),
          dotted(cudnn / 10000, cudnn % 10000 / 100, cudnn % 100),
          dotted(nccl / 10000, nccl % 10000 / 100, nccl % 100)};
}

}  // namespace kiln
