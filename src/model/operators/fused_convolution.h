// oneDNN's convolutions with what follows them inside: bias, addition and ReLU are computed where
// the output is written, which saves passes over it. LibTorch registers them by name only, in the
// namespace mkldnn. For inference on CPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/operators/maps.h"

namespace kiln {

// Half of an odd kernel; 0 for an even one, which is as large as its stride: patches.
constexpr std::int64_t padding_of(std::int64_t kernel) {
  return kernel % 2 == 0 ? 0 : kernel / 2;
}

// Whether fused operators can compute with `x`: only in InferenceMode without Autocast, on a CPU,
// in float32, or in bfloat16 where oneDNN computes with it, and if LibTorch has the operators.
bool can_fuse(const at::Tensor& x);

class FusedConvolution {
 public:
  // `weight`: [O, I / groups, k, k], float32; `bias`: [O], likewise, or undefined. padding_of(k).
  // Numbers that are not finite are not allowed: oneDNN's ReLU makes NaN 0.
  FusedConvolution(const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                   std::int64_t groups);

  // `x`: can_fuse(); `added`: of the output's shape, or undefined. Returns the activation of the
  // convolution of `x` plus `added`, channels_last. Overwrites `added` with it, and then allows
  // ReLU or none only.
  at::Tensor forward(const at::Tensor& x, Activation activation, const at::Tensor& added);

 private:
  void pack_for(const at::Tensor& x);

  at::Tensor weight_, bias_;
  std::int64_t stride_, groups_;
  // In the type of the last images, and the layout that oneDNN wants for their size. Should it want
  // another layout for another number of images, it rearranges them in each call.
  at::Tensor packed_weight_, typed_bias_;
  std::int64_t height_ = 0, width_ = 0;
};

// relu(x * scale + shift) of the feature maps `maps` joined along their channels, in one pass;
// `side` 2: the means of 2x2 pixels of that. All maps can_fuse() and are of one size and type;
// `scale` and `shift` are float32 [C]. channels_last.
at::Tensor joined_relu(const std::vector<at::Tensor>& maps, const at::Tensor& scale,
                       const at::Tensor& shift, int side);

}  // namespace kiln
