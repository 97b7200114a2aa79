// The nearest of many images, by the features of a network: exact, by cosine, among rows that take
// little memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

inline constexpr std::int64_t kNeighborAxes = 256;
// From this cosine on, two images look the same to a network: copies, but for their bytes.
inline constexpr float kSameFeatures = 0.9999F;

// On the host. Thread-safe.
struct Neighbors {
  at::Tensor axes;  // [D, P], orthonormal columns: what features are projected to. Undefined: P = D
  at::Tensor rows;  // float16 [N, P]: projected features, then of length 1

  // Features [Q, D] as rows, float32.
  at::Tensor projected(const at::Tensor& features) const;
  // The places of the `count` nearest rows, at most all, of each row of `features`: int64
  // [Q, count], nearest first. Needs memory for some thousand rows as float32 beside them.
  at::Tensor nearest(const at::Tensor& features, std::int64_t count) const;
};

// Of features [N, D], projected to their main axes where D > 256.
Neighbors neighbors_of(const at::Tensor& features);

}  // namespace kiln
