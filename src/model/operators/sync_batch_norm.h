// BatchNorm over the batches of all ranks.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace kiln {

// The ranks that share a batch. `sum` all-reduces a contiguous tensor of float64 or float32 in
// place; every rank calls it in the same order, in forward and backward.
struct BatchRanks {
  int rank = 0, size = 1;
  std::function<void(at::Tensor&)> sum = {};
};

// running += momentum * (that of the batch - running), in place; the variance is unbiased.
struct RunningStatistics {
  at::Tensor mean, variance;  // [C]
  double momentum;
};

// x [N, C, H, W] (N may be 0 on some ranks) normalized by the statistics of all ranks' x, scaled
// and shifted, in x's type; sums and statistics are in the weight's, as those of bfloat16 or
// float16 would lose too much precision. Differentiable in x, weight and bias. Backward keeps a
// copy of `ranks`. Does not block the host except where `sum` does. Ioffe and Szegedy, "Batch
// Normalization", 2015, arXiv:1502.03167, with the batch spread over ranks.
at::Tensor sync_batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const RunningStatistics& running, double epsilon,
                           const BatchRanks& ranks);

}  // namespace kiln
