// An exponential moving average of the weights over the steps, which generalizes better than the
// last step's. Polyak and Juditsky, "Acceleration of Stochastic Approximation by Averaging", 1992.
//
//   average += (1 - d) * (weight - average),  d = min(decay, (1 + n) / (10 + n)) in step n from 0
//
// so that the initial random weights are soon forgotten. BatchNorm's statistics are averaged the
// same way.
#pragma once

#include <cstdint>
#include <vector>

#include "model/image_model.h"

namespace kiln {

// One thread. On a GPU the work is queued, not waited for.
class AveragedWeights {
 public:
  // Starts from the model's current weights. The model must outlive it.
  AveragedWeights(const ImageModel& model, double decay);

  void note_step();

  // Swaps the averages with the model's weights. A second call swaps them back.
  void exchange();

  // The averages, named as in the model. The tensors are not copies: writing to them changes the
  // averages.
  const std::vector<NamedTensor>& state() const { return averages_; }
  // The averages of the model's buffers(), in their order.
  std::vector<NamedTensor> buffers() const;
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  const ImageModel& model_;
  const double decay_;
  std::int64_t steps_ = 0;
  std::vector<NamedTensor> averages_;  // of all tensors in the model's state()
  // The model's tensors and their averages: floating-point tensors, which are averaged, and counts.
  std::vector<at::Tensor> weights_, weight_averages_, counts_, count_averages_;
};

// Puts the averages into the model for its lifetime. nullptr: does nothing.
class AveragesInPlace {
 public:
  explicit AveragesInPlace(AveragedWeights* averages) : averages_(averages) {
    if (averages_ != nullptr) averages_->exchange();
  }
  ~AveragesInPlace() {
    if (averages_ != nullptr) averages_->exchange();
  }
  AveragesInPlace(const AveragesInPlace&) = delete;
  AveragesInPlace& operator=(const AveragesInPlace&) = delete;

 private:
  AveragedWeights* averages_;
};

}  // namespace kiln
