#include "train/optimizer/averaged_weights.h"

#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace kiln {

AveragedWeights::AveragedWeights(const ImageModel& model, double decay)
    : model_(model), decay_(decay) {
  const c10::AutoGradMode no_grad(false);
  for (const NamedTensor& item : model.state()) {
    const at::Tensor weight = item.tensor.detach();
    averages_.push_back({item.name, weight.clone()});
    const bool is_float = weight.is_floating_point();
    (is_float ? weights_ : counts_).push_back(weight);
    (is_float ? weight_averages_ : count_averages_).push_back(averages_.back().tensor);
  }
}

void AveragedWeights::note_step() {
  const c10::AutoGradMode no_grad(false);
  const auto n = static_cast<double>(steps_++);
  const double decay = std::min(decay_, (1 + n) / (10 + n));
  at::_foreach_lerp_(weight_averages_, weights_, 1 - decay);
  if (!counts_.empty()) at::_foreach_copy_(count_averages_, counts_);
}

void AveragedWeights::exchange() {
  const c10::AutoGradMode no_grad(false);
  const auto swap_all = [](std::vector<at::Tensor>& ones, std::vector<at::Tensor>& others) {
    for (std::size_t i = 0; i < ones.size(); ++i) {
      const at::Tensor kept = ones[i].clone();
      ones[i].copy_(others[i]);
      others[i].copy_(kept);
    }
  };
  swap_all(weights_, weight_averages_);
  swap_all(counts_, count_averages_);
}

std::vector<NamedTensor> AveragedWeights::buffers() const {
  std::vector<NamedTensor> buffers;
  for (const NamedTensor& buffer : model_.buffers()) {
    const auto found =
        std::find_if(averages_.begin(), averages_.end(),
                     [&](const NamedTensor& item) { return item.name == buffer.name; });
    buffers.push_back(*found);
  }
  return buffers;
}

}  // namespace kiln
