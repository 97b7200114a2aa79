#include "modules/cuda/norm_kernels.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

namespace kiln {
namespace {

int attribute(cudaDeviceAttr which) {
  int value = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, c10::cuda::current_device()));
  return value;
}

// The one to load for the current device.
const char* chosen_image() {
  const int major = attribute(cudaDevAttrComputeCapabilityMajor);
  const int minor = attribute(cudaDevAttrComputeCapabilityMinor);
  const NormImage* image = kNormImages;
  while (image->capability != 0 &&
         (image->capability / 10 != major || image->capability % 10 > minor))
    ++image;
  return image->code;
}

// What is on the device for the life of the process: static objects end after CUDA does. The
// runtime loads it with the driver's functions of the same names, so there is no other to link.
struct LoadedKernels {
  const c10::DeviceIndex device = c10::cuda::current_device();
  cudaLibrary_t library = nullptr;
  unsigned* tickets = nullptr;

  LoadedKernels() {
    C10_CUDA_CHECK(
        cudaLibraryLoadData(&library, chosen_image(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    C10_CUDA_CHECK(cudaMalloc(&tickets, kMaxNormTiles * sizeof *tickets));
    C10_CUDA_CHECK(cudaMemsetAsync(tickets, 0, kMaxNormTiles * sizeof *tickets,
                                   c10::cuda::getCurrentCUDAStream()));
  }
};

}  // namespace

void launch_norm(const char* kernel, const NormGrid& grid, NormArguments arguments) {
  static const LoadedKernels kLoaded;
  TORCH_CHECK(c10::cuda::current_device() == kLoaded.device, "norms on two devices");
  arguments.tickets = kLoaded.tickets;
  cudaKernel_t found = nullptr;
  C10_CUDA_CHECK(cudaLibraryGetKernel(&found, kLoaded.library, kernel));
  void* parameters[] = {&arguments};
  C10_CUDA_CHECK(cudaLaunchKernel(found, dim3(grid.tiles, grid.blocks),
                                  dim3(grid.columns, grid.rows), parameters, 0,
                                  c10::cuda::getCurrentCUDAStream()));
}

unsigned num_multiprocessors() {
  static const int kNumber = attribute(cudaDevAttrMultiProcessorCount);
  return static_cast<unsigned>(kNumber);
}

}  // namespace kiln
