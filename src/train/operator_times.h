// Where a training step's time goes: LibTorch's operators by kind, with the arithmetic and the
// memory traffic that they stand for.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kiln {

struct OperatorSums {
  struct Kind {
    std::string_view name;
    double seconds = 0;
  };
  // What is between operators, or in operators of no kind, is in none of them.
  std::array<Kind, 7> kinds = {{{"convolution"},
                                {"batch_norm"},
                                {"relu_and_add"},
                                {"pooling_and_concatenation"},
                                {"linear_and_loss"},
                                {"gradient_accumulation"},
                                {"optimizer"}}};
  // Of convolutions and linear layers in the forward pass; a multiply-add counts as two.
  double forward_flops = 0;
  // What the innermost operators read and write: their inputs and outputs, as if without a cache.
  double bytes = 0;
};

// Adds up all operators of its thread while it exists; at most one in a thread. On a CPU that is
// the forward and the backward pass. On a GPU it is the forward pass alone, as autograd has a
// thread of its own, and seconds say nothing, as the host only queues the work.
class OperatorTimes {
 public:
  OperatorTimes();
  ~OperatorTimes();
  OperatorTimes(const OperatorTimes&) = delete;
  OperatorTimes& operator=(const OperatorTimes&) = delete;

  const OperatorSums& sums() const;

 private:
  std::uint64_t handle_;
};

}  // namespace kiln
