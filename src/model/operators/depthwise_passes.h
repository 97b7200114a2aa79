// The gradients of a depthwise convolution on channels_last maps. A task unpacks a band of rows of
// one image, in as many channels as a vector has numbers, into float32 with its border of zeros,
// and computes in loops without edges.
//
// Maps are [images, height, width, channels] without gaps. Taps are [kernel * kernel,
// padded_channels()], aligned to 64 bytes. Sums are float32, in an order that does not depend on
// the threads, which are LibTorch's of OpenMP. The border is multiplied, too: an infinite tap or
// gradient makes NaN where kernels that leave the border out have none.
#pragma once

#include <cstdint>

#include "model/operators/map_numbers.h"

namespace kiln {

struct DepthwiseShape {
  std::int64_t images, channels, height, width;  // of the input
  int kernel, stride;                            // 3, 5 or 7; 1 or 2. Padding: kernel / 2
  MapType type;                                  // of the maps

  std::int64_t out_height() const { return (height - 1) / stride + 1; }
  std::int64_t out_width() const { return (width - 1) / stride + 1; }
  std::int64_t padded_channels() const { return (channels + 15) / 16 * 16; }
  // Each over some of the images.
  std::int64_t partial_sums() const { return images < 1 ? 1 : images < 16 ? images : 16; }
};

// Numbers of this processor's vectors: 16 with AVX-512, 8 with AVX2, and 0 if there are no passes.
int depthwise_lanes();

// `lanes`: 16 or 8.
void depthwise_input_gradient(const DepthwiseShape& shape, int lanes, const void* dy,
                              const float* taps, void* dx);

// `sums`: [partial_sums()] times taps; the first becomes the gradient.
void depthwise_weight_gradient(const DepthwiseShape& shape, int lanes, const void* x,
                               const void* dy, float* sums);

}  // namespace kiln
