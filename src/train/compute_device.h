// The chosen device as LibTorch and the precision know it.
#pragma once

#include <c10/core/Device.h>

#include "parallel/device/device.h"
#include "train/precision.h"

namespace kiln {

at::Device torch_device(const Device& device);
ComputeUnits units_of(const Device& device);

}  // namespace kiln
