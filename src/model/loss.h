// What training makes small.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kiln {

// Sum of the cross-entropies of logits [N, C] and labels [N] (int64), divided by `nominal_count` (>
// 0): the full batch size, also when bad images left the batch shorter. A scalar with a graph, of
// the logits' type.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels,
                         std::int64_t nominal_count);

}  // namespace kiln
