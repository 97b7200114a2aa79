#include "cuda/module.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include "cuda/nccl_communicator.h"

namespace {

const char* device_fault(int device) {
  const cudaError_t status = cudaSetDevice(device);
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

long long peak_memory_bytes(int device) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats.reserved_bytes[0].peak;
}

int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

long cudnn_version() {
  return at::detail::getCUDAHooks().versionCuDNN();
}

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

constexpr kiln::CudaModule kModule{
    kiln::kCudaModuleVersion, device_fault,         peak_memory_bytes,
    runtime_version,          cudnn_version,        nccl_version,
    kiln::make_nccl_id,       kiln::make_nccl_group};

}  // namespace

extern "C" const kiln::CudaModule* kiln_cuda_module() {
  return &kModule;
}
