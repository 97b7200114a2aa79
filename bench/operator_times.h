// Where the time of a training step goes: the time in LibTorch's operators by kind, with their
// floating-point operations and memory traffic.
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
  // Time between operators, or in operators of no kind, is not counted.
  std::array<Kind, 7> kinds = {{{"convolution"},
                                {"batch_norm"},
                                {"relu_and_add"},
                                {"pooling_and_concatenation"},
                                {"linear_and_loss"},
                                {"gradient_accumulation"},
                                {"optimizer"}}};
  // For convolutions and linear layers in the forward pass; a multiply-add counts as two.
  double forward_flops = 0;
  // Bytes read and written by the innermost operators: their inputs and outputs, assuming no cache.
  double bytes = 0;
};

// Sums over all operators run on its thread during its lifetime; at most one object per thread. On
// a CPU this covers the forward and backward passes. On a GPU it covers only the forward pass,
// since autograd uses its own thread, and the seconds are meaningless, since the host only queues
// the work.
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
