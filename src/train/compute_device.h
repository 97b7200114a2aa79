// Converts the chosen device to LibTorch's type and to the units that the choice of precision
// needs.
#pragma once

#include <c10/core/Device.h>

#include "parallel/device/device.h"
#include "train/precision.h"

namespace kiln {

at::Device torch_device(const Device& device);
ComputeUnits units_of(const Device& device);

}  // namespace kiln
