// Depthwise convolutions in training on CPUs. oneDNN has no kernels for some of their gradients,
// and then runs a grouped convolution whose groups are padded to 16 channels. Each gradient is
// computed by the faster of oneDNN's and ours, which LibTorch's dispatcher has as
//
//   kiln::depthwise_backward(Tensor dy, Tensor x, Tensor weight, int stride, bool[2] output_mask)
//       -> (Tensor, Tensor)
//
// For maps of float32 or bfloat16 in any layout, and kernels of 3, 5 or 7 with strides of 1 or 2,
// padded by half of the kernel. dx comes back channels_last in the type of the maps, the weight's
// gradient in float32. The bits are equal for any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

// Whether a gradient of at::conv2d(x, weight, bias, stride, k / 2, 1, groups), in autocast's type,
// is needed and faster with ours.
bool is_own_depthwise(const at::Tensor& x, const at::Tensor& weight, std::int64_t stride,
                      std::int64_t groups);

// at::conv2d() of it. `bias`: [C], or undefined. Computes and answers in autocast's type.
at::Tensor depthwise_convolution(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& bias, std::int64_t stride);

}  // namespace kiln
