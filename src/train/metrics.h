// Loss and accuracy as sums on the device; nothing is copied to the host until somebody reads.
#pragma once

#include <ATen/core/Tensor.h>

#include "base/training_record.h"

namespace kiln {

class MetricSums {
 public:
  explicit MetricSums(const at::Device& device);

  // logits [N, C], labels [N], loss_sum []: the sum of the images' losses. `step` is from 1.
  void add(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& loss_sum,
           int step);

  // These wait for the device.
  Totals batch() const;        // the last add()
  Totals totals() const;       // all of them
  int first_bad_step() const;  // the first step whose loss was not finite; 0: none

  // Goes on from these sums, all of them finite.
  void set(const Totals& totals);

 private:
  Totals read(const at::Tensor& sums, std::int64_t count) const;

  at::Tensor sums_, batch_sums_;  // double [3]: loss, top-1, top-5
  at::Tensor first_bad_step_;     // int64 []
  std::int64_t count_ = 0, batch_count_ = 0;
};

}  // namespace kiln
