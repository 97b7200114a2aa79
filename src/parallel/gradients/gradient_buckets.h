// The gradients of all parameters, as views into a few flat buffers that are summed over the ranks
// while backward still fills the others.
//
// A buffer is sent as soon as all its gradients are there, in the same order on every rank: the
// parameters' reverse order, which is about the order in which backward reaches them. One thread
// but for backward's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/training_record.h"
#include "parallel/gradients/communicator.h"

namespace kiln {

struct BucketPlan {
  std::size_t first_bytes = 1 << 20;  // small, so that sending starts early
  std::size_t bytes = 25 << 20;
  bool bfloat16 = false;  // sum in bfloat16: half the traffic, three digits
};

class GradientBuckets {
 public:
  // `parameters` in their final place and memory format, all of one floating-point type; their
  // gradients become views of the buckets, of the parameters' own strides. `communicator` must
  // outlive the buckets; with one rank nothing is sent and backward is not watched.
  GradientBuckets(std::vector<at::Tensor> parameters, const BucketPlan& plan,
                  Communicator& communicator);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // In the order of the parameters; backward adds into them.
  const std::vector<at::Tensor>& gradients() const;
  void zero();

  // The next backward is the step's last: from now on full buckets are sent.
  void reduce_on_next_backward();
  // After backward: sends what is left and waits for all sums. Every rank calls it once a step,
  // also one whose batch was empty.
  void wait();

  std::size_t num_buckets() const;
  // Since the start; empty for one rank and where the communicator does not measure.
  std::optional<CommunicationTime> communication() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
