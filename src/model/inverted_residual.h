// The blocks of MobileNetV3 and EfficientNet: a convolution widens, one of single channels looks
// around, one narrows again. Sandler et al., arXiv:1801.04381.
#pragma once

#include <cstdint>
#include <memory>

#include "model/layers.h"

namespace kiln {

struct InvertedShape {
  std::int64_t in_channels;
  std::int64_t inner_channels;  // those of the input: nothing is widened
  std::int64_t out_channels;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t squeezed_channels = 0;  // of squeeze and excitation; 0: none
  Activation activation = Activation::kSilu;
  // One full convolution widens and looks around. Tan and Le, arXiv:2104.00298.
  bool is_fused = false;
  double drop_rate = 0;  // of the branch
  NormPlan norm = {};
};

// The nearest multiple of 8, not more than a tenth below: of channels that are a share of others.
std::int64_t multiple_of_8(double channels);

// The branch's layers are those of the chain "block"; the input is added if it has their shape.
std::shared_ptr<Layer> make_inverted_residual(const InvertedShape& shape);

}  // namespace kiln
