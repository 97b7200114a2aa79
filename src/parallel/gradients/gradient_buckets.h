// The gradients of all parameters, as views into a few flat buffers that are all-reduced while
// backward is still filling the others. A buffer is sent as soon as all its gradients are complete,
// in the same order on every rank: the reverse order of the parameters, which is roughly the order
// in which backward reaches them. One thread, apart from backward's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/training_record.h"
#include "parallel/gradients/communicator.h"

namespace kiln {

struct BucketPlan {
  std::size_t first_bytes = 1 << 20;  // small, so that communication starts early
  std::size_t bytes = 25 << 20;
  bool bfloat16 = false;  // sum in bfloat16: half the traffic, three digits
};

class GradientBuckets {
 public:
  // `parameters` on their final device and in their final memory format, all of one floating-point
  // type. What backward makes for them is moved into gradients(), which have the parameters'
  // strides; the parameters themselves keep none. `communicator` must outlive the buckets. With one
  // rank there are no buckets: gradients() take over the memory that backward has written.
  GradientBuckets(std::vector<at::Tensor> parameters, const BucketPlan& plan,
                  Communicator& communicator);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // In the order of the parameters, the same tensors in every step. The sums of a step's backward
  // passes; valid after wait().
  const std::vector<at::Tensor>& gradients() const;
  // The same in as few tensors as there are: the buckets' flat buffers, with zeros between them.
  std::vector<at::Tensor> flat() const;
  // The next backward is the first of a step.
  void clear();

  // The next backward is the step's last: complete buckets are sent from now on.
  void reduce_on_next_backward();
  // After backward: sends the remaining buckets and waits for all sums; what backward did not reach
  // is zero. Every rank calls it once per step, even if its batch was empty.
  void wait();

  std::size_t num_buckets() const;
  // Since the start; empty for one rank and if the communicator does not measure.
  std::optional<CommunicationTime> communication() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
