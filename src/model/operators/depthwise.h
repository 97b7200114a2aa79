// Depthwise convolutions on CPUs. oneDNN has no kernels for some of their passes, and then runs a
// grouped convolution whose groups are padded to 16 channels. Each pass is computed by the faster
// of oneDNN's and ours, which are registered with LibTorch's dispatcher:
//
//   kiln::depthwise(Tensor x, Tensor weight, Tensor? bias, int stride) -> Tensor
//   kiln::depthwise_input_gradient(Tensor dy, Tensor weight, int[] size, int stride) -> Tensor
//   kiln::depthwise_weight_gradient(Tensor x, Tensor dy, int kernel, int stride) -> Tensor
//
// For maps of float32 or bfloat16 in any layout, and kernels of 3, 5 or 7 with strides of 1 or 2,
// padded by half of the kernel. `size` is that of x. Maps come back channels_last in the type of
// those given, the weight's gradient as float32, [C, 1, k, k]. The bits are equal for any number of
// threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

// Whether a pass of at::conv2d(x, weight, bias, stride, k / 2, 1, groups), in autocast's type, is
// faster with ours.
bool is_own_depthwise(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                      std::int64_t groups);

// at::conv2d() of it. `bias`: [C], or undefined. Computes and answers in autocast's type.
at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, std::int64_t stride);

}  // namespace kiln
