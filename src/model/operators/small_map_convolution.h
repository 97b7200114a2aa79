// Convolutions in training on CPUs whose result has a few pixels, as at the end of a network for
// small images: products of matrices that lie where the feature maps and the weights are, without
// the taps of the kernel that meet only padding. oneDNN's convolutions rearrange all weights for
// every pass, which takes longer than computing with them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

struct ConvSteps {
  std::int64_t stride = 1, padding = 0;
};

// Whether in training small_map_convolution() is faster than at::conv2d() of `x`, [N, C, h, w],
// with `weight`, [O, C, k, k], and can be used: not on GPUs, and not with groups.
bool is_small_map(const at::Tensor& x, const at::Tensor& weight, const ConvSteps& steps);

// at::conv2d(), for any thread. `bias`: [O], or undefined. Computes and answers in autocast's type.
at::Tensor small_map_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, const ConvSteps& steps);

}  // namespace kiln
