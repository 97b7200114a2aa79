// BatchNorm over the batches of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

// All-reduces a float64 vector in place. Every rank calls it in the same order, in forward and
// backward.
using SumOverRanks = std::function<void(at::Tensor&)>;

struct BatchStatistics {
  at::Tensor mean, variance;  // [C], biased variance
  at::Tensor count;           // [1]: number of values per channel, over all ranks
};

// x [N, C, H, W] (N may be 0 on some ranks) normalized by the statistics of all ranks' x, scaled
// and shifted. Differentiable in x, weight and bias; `statistics` receives the statistics used.
// Backward keeps a copy of `sum`. Does not block the host except where `sum` does. Ioffe and
// Szegedy, "Batch Normalization", 2015, arXiv:1502.03167, with the batch spread over ranks.
at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           double epsilon, const SumOverRanks& sum, BatchStatistics* statistics);

}  // namespace kiln
