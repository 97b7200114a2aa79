// The gradients of all parameters, in buckets that are all-reduced while backward is still making
// the others, or after it where that would only slow it down. A large gradient is a bucket of its
// own and stays in the memory that backward has written; smaller ones are views into a flat buffer,
// which takes them at once. A bucket is sent when all its gradients are complete, in the same order
// on every rank: the reverse order of the parameters, which is roughly the order in which backward
// reaches them. One thread, besides backward's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "parallel/gradients/communicator.h"
#include "record/training_record.h"

namespace kiln {

struct BucketPlan {
  std::size_t first_bytes = 1 << 20;  // small, so that communication starts early
  std::size_t bytes = 25 << 20;
  bool sums_ranks = true;  // otherwise each rank keeps its own gradients, as if it were alone
};

class GradientBuckets {
 public:
  // `parameters` must be on their final device, in their final memory format, and all of one
  // floating-point type. Gradients computed by backward are moved into gradients(), which have the
  // parameters' strides; the parameters' own grad() stays undefined. `communicator` must outlive
  // the buckets. On a rank that is alone each gradient is a bucket of its own, which is not sent.
  GradientBuckets(std::vector<at::Tensor> parameters, const BucketPlan& plan,
                  Communicator& communicator);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // The gradients accumulated over a step's backward passes, in the order of the parameters, and
  // the same tensors in every step. Valid after wait().
  const std::vector<at::Tensor>& gradients() const { return gradients_; }
  // The same values in as few tensors as possible: the buckets' memory, padded with zeros between
  // gradients. For a rank that is alone, gradients().
  std::vector<at::Tensor> flat() const;
  // Call before the first backward of a step: it overwrites the old gradients.
  void clear() { is_filled_.assign(is_filled_.size(), false); }

  // Call before the last backward of a step: from now on buckets are sent as soon as they are
  // complete.
  void reduce_on_next_backward();
  // Call after backward: sends the remaining buckets and waits for all sums. Gradients that
  // backward did not reach are set to zero. Every rank calls it once per step, even if its batch
  // was empty.
  void wait();

  // The number of ranks whose gradients are summed.
  int num_ranks() const { return num_ranks_; }
  // Total times so far; empty for one rank or if the communicator does not measure them.
  std::optional<CommunicationTime> communication() const;

 private:
  struct Bucket {
    at::Tensor together;               // the memory of all its gradients; undefined if it has one
    std::vector<std::size_t> members;  // indices of its gradients
    std::size_t missing = 0;           // gradients that backward has not made yet
    Communicator::Ticket ticket = 0;   // of its all-reduce
  };

  bool is_alone() const { return num_ranks_ == 1; }
  void lay_out(const std::vector<std::size_t>& members);
  void keep_gradient(std::size_t i, std::size_t index);
  void take_made(Bucket& bucket);
  void take_all_made();
  at::Tensor flat(const Bucket& bucket) const;  // its memory, in one dimension
  void send(Bucket& bucket);

  std::vector<at::Tensor> parameters_, gradients_;
  std::vector<at::Tensor> made_;  // by backward, and not yet in the bucket
  std::vector<bool> is_filled_;   // whether backward has set the gradient in this step
  std::vector<Bucket> buckets_;
  Communicator& communicator_;
  const int num_ranks_;
  bool is_reducing_ = false;  // complete buckets are sent: the step's last backward has begun
  std::size_t sent_ = 0;      // buckets handed to the communicator in this step
  double wait_seconds_ = 0;   // spent waiting for all-reduces
};

}  // namespace kiln
