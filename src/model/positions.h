// Where the patches of an image are: learned vectors, for a square grid of patches.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

// [1, 1 + g g, D], the first for a class token -> [1, 1 + height width, D], as timm resamples them:
// bicubic and antialiased, in float32. Returns `positions` if they have this grid.
at::Tensor resampled_positions(const at::Tensor& positions, std::int64_t height,
                               std::int64_t width);

// The filter above as two products of matrices, [1, D, h, w] -> [1, D, height, width]: its backward
// is deterministic on GPUs, where that of LibTorch's operator is not.
at::Tensor resampled_by_products(const at::Tensor& maps, std::int64_t height, std::int64_t width);

// Side of the grid; 0 if it is no square.
std::int64_t grid_side(const at::Tensor& positions);

}  // namespace kiln
