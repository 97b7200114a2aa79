// Cross-validation folds: each part of the images is predicted by a model trained on the other
// parts.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace kiln {

struct Folds {
  int count = 0;        // 0: the images cannot be divided
  std::vector<int> of;  // the fold of each image, from 0
};

// Divides the images so that every fold has as equal a share of every class as whole groups allow;
// the images of a group stay in one fold. `groups` has a number for each image; if it is empty,
// each image is its own group. If there are fewer groups than folds, there are that many folds; for
// a single group, none. Deterministic: depends only on the arguments.
Folds divided_into_folds(std::span<const std::int32_t> labels,
                         std::span<const std::uint32_t> groups, int num_folds, std::uint64_t seed);

// Out-of-fold predictions: those of layers that were not fitted to the image in question.

struct OutOfFold {
  at::Tensor probabilities;            // [N, C] float32, host; without temperature
  std::vector<std::int32_t> labels;    // [N]
  at::Tensor features;                 // [N, D] float32, host
  std::vector<std::uint32_t> samples;  // [N] indices into the training samples
};

}  // namespace kiln
