// The three passes of a depthwise convolution on channels_last maps: the output, the gradient of
// the input, and the gradient of the weights. A task takes a band of rows of one image in as many
// channels as a vector has numbers, unpacks it into float32 with its border of zeros, and then
// computes in loops that have no edges.
//
// Maps are [images, height, width, channels] without gaps, weights [channels, kernel, kernel].
// Sums are float32, in an order that does not depend on the threads, which are LibTorch's of
// OpenMP. The border is multiplied, too: where LibTorch's kernels leave it out, an infinite weight
// or gradient makes NaN here.
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
};

// The instructions that the passes are compiled for.
enum class Vectors { kNone, kAvx2, kAvx512 };

// The best of this processor. With kNone there are no passes.
Vectors usable_vectors();

// `bias`: [channels], or null.
void depthwise_output(const DepthwiseShape& shape, const void* x, const float* weight,
                      const float* bias, void* y, Vectors vectors);

void depthwise_input_gradient(const DepthwiseShape& shape, const void* dy, const float* weight,
                              void* dx, Vectors vectors);

void depthwise_weight_gradient(const DepthwiseShape& shape, const void* x, const void* dy,
                               float* dweight, Vectors vectors);

}  // namespace kiln
