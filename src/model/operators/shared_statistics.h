// The statistics of a batch that is spread over ranks, from sums that are all-reduced: what both
// forms of synchronized BatchNorm share.
#pragma once

#include <ATen/core/Tensor.h>

namespace kiln {

struct BatchStatistics {
  at::Tensor mean, variance;  // [C], biased variance
  at::Tensor count;           // [1]: number of values per channel, over all ranks
  at::Tensor unbiased;        // [C], the variance; that of one value is 0
};

// Of the maps x [N, C, H, W] of one rank.
double values_a_channel(const at::Tensor& x);

// What a rank adds, float64 [2 C + 1]: sums, sums of squares, number of values per channel. Made
// from its mean and biased variance, float64 [C], since plain float32 sums of squares would suffer
// from cancellation.
at::Tensor sums_of(const at::Tensor& mean, const at::Tensor& variance, double count);

// Of all ranks, from the sum of what they add.
BatchStatistics statistics_of(const at::Tensor& sums);

}  // namespace kiln
