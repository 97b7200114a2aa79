// Convolutions with what follows them inside, for inference on CPUs: bias, addition and activation
// are computed where the output is written, which saves passes over it. oneDNN's, of a module that
// is opened with the first of them (modules/onednn/module.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "modules/onednn/module.h"

namespace kiln {

// Half of an odd kernel; 0 for an even one, which is as large as its stride: patches.
constexpr std::int64_t padding_of(std::int64_t kernel) {
  return kernel % 2 == 0 ? 0 : kernel / 2;
}

// Whether fused operators can compute with `x`: only in InferenceMode without Autocast, on a CPU,
// in float32, or in bfloat16 where the processor computes with it.
bool can_fuse(const at::Tensor& x);

// `x` in the type of Autocast, for fused operators without it; undefined if they cannot be used.
at::Tensor fusable(const at::Tensor& x);

// relu, hardswish or silu of x, which it may overwrite.
at::Tensor activated(at::Tensor x, Activation activation);

// What was prepared for the last shapes.
class PreparedShapes {
 public:
  // `make`: prepares a shape, beside those that are there; a null is kept, too.
  using Make = std::function<PreparedPointer(const std::vector<PreparedPointer>&)>;
  Prepared* of(const PreparedShape& shape, const Make& make);

 private:
  std::vector<PreparedShape> shapes_;      // the last that was used is the last
  std::vector<PreparedPointer> prepared_;  // for each
};

class FusedConvolution {
 public:
  // `weight`: [O, I / groups, k, k], float32; `bias`: [O], likewise, or undefined. padding_of(k).
  // Numbers that are not finite are not allowed: oneDNN's ReLU makes NaN 0.
  FusedConvolution(const at::Tensor& weight, const at::Tensor& bias, std::int64_t stride,
                   std::int64_t groups);

  // `x`: can_fuse(); `added`: of the output's shape, or undefined. Returns the activation of the
  // convolution of `x` plus `added`, channels_last. Overwrites `added` with it. Not thread-safe.
  at::Tensor forward(const at::Tensor& x, Activation activation, const at::Tensor& added);

 private:
  at::Tensor weight_, bias_;
  std::int64_t stride_, groups_;
  PreparedShapes shapes_;
};

// The largest of 3x3 pixels, with a stride of 2 and padded by 1.
class FusedMaxPool {
 public:
  // `x`: can_fuse(), without NaN, which oneDNN leaves out. Not thread-safe.
  at::Tensor forward(const at::Tensor& x);

 private:
  PreparedShapes shapes_;
};

// relu(x * scale + shift) of the feature maps `maps` joined along their channels, in one pass;
// `side` 2: the means of 2x2 pixels of that. All maps can_fuse() and are of one size and type;
// `scale` and `shift` are float32 [C]. channels_last.
at::Tensor joined_relu(const std::vector<at::Tensor>& maps, const at::Tensor& scale,
                       const at::Tensor& shift, int side);

}  // namespace kiln
