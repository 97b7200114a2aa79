#include "train/compute_device.h"

namespace kiln {

ComputeUnits units_of(const Device& device) {
  return {.is_cuda = device.is_cuda,
          .capability = device.capability,
          .cpu_has_bf16 = cpu_has_bf16_units()};
}

at::Device torch_device(const Device& device) {
  return device.is_cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))
                        : at::Device(at::kCPU);
}

}  // namespace kiln
