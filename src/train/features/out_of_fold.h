// Out-of-fold predictions: those of layers that were not fitted to the image in question.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kiln {

struct OutOfFold {
  at::Tensor probabilities;            // [N, C] float32, host; without temperature
  std::vector<std::int32_t> labels;    // [N]
  at::Tensor features;                 // [N, D] float32, host
  std::vector<std::uint32_t> samples;  // [N] indices into the training samples
};

}  // namespace kiln
