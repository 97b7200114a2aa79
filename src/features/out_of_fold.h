// What a layer said of images that it had not learned from.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kiln {

struct OutOfFold {
  at::Tensor probabilities;            // [N, C] float32, host; of the logits as they are
  std::vector<std::int32_t> labels;    // [N]
  at::Tensor features;                 // [N, D] float32, host
  std::vector<std::uint32_t> samples;  // [N] index into the training samples
};

}  // namespace kiln
