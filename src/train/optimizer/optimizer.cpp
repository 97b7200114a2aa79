#include "train/optimizer/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/_foreach_lerp.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "train/optimizer/catalogue.h"

namespace kiln {

std::unique_ptr<Optimizer> make_adamw(const OptimizerPlan& plan,
                                      std::vector<ParameterGroup> groups);
std::unique_ptr<Optimizer> make_sgd(const OptimizerPlan& plan, std::vector<ParameterGroup> groups);

namespace {

// The defaults of PyTorch's GradScaler, like the initial scale.
constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr std::int64_t kGrowthInterval = 2000;  // steps

struct OptimizerMaker {
  std::string_view name;
  std::unique_ptr<Optimizer> (*make)(const OptimizerPlan&, std::vector<ParameterGroup>);
};

constexpr std::array kMakers = {
    OptimizerMaker{"sgd", make_sgd},
    OptimizerMaker{"adamw", make_adamw},
};
static_assert(std::ranges::equal(kMakers, kKnownOptimizers, {}, &OptimizerMaker::name,
                                 &KnownOptimizer::name),
              "one maker for each row of the catalogue, in its order");

// ConvNeXt's: a number for each channel, though torchvision stores it as [C, 1, 1].
constexpr std::string_view kLayerScale = ".layer_scale";

}  // namespace

std::vector<ParameterGroup> groups_of(const ImageModel& model,
                                      const std::vector<at::Tensor>& gradients,
                                      const OptimizerPlan& plan) {
  const std::vector<NamedTensor> parameters = model.named_parameters();
  const std::vector<int> stages = model.stages();
  std::vector<ParameterGroup> all;
  auto gradient = gradients.begin();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, tensor] = parameters[i];
    if (!tensor.requires_grad()) continue;
    const int depth = stages.back() - stages[i];  // 0: the head
    const double rate = depth == 0 ? plan.head_rate : std::pow(plan.layer_decay, depth);
    const bool is_scale_or_shift = tensor.dim() <= 1 || name.ends_with(kLayerScale);
    const double decay = plan.decays_norm_and_bias || !is_scale_or_shift ? plan.weight_decay : 0;
    auto group = std::ranges::find_if(all, [&](const ParameterGroup& one) {
      return one.rate == rate && one.weight_decay == decay;
    });
    if (group == all.end()) group = all.insert(group, {{}, {}, decay, rate});
    group->parameters.push_back(parameters[i]);
    group->gradients.push_back(*gradient++);
  }
  return all;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerPlan& plan,
                                          std::vector<ParameterGroup> groups) {
  for (const OptimizerMaker& maker : kMakers)
    if (maker.name == plan.name) return maker.make(plan, std::move(groups));
  throw InternalError("no optimizer is called " + plan.name);
}

std::vector<at::Tensor> without_names(const std::vector<NamedTensor>& items) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& item : items) tensors.push_back(item.tensor);
  return tensors;
}

std::vector<ParameterGroup> with_state(std::vector<ParameterGroup> groups, std::size_t num_kinds) {
  const c10::AutoGradMode no_grad(false);
  for (ParameterGroup& group : groups) {
    group.tensors = without_names(group.parameters);
    group.states.resize(num_kinds);
    for (const NamedTensor& parameter : group.parameters)
      for (auto& state : group.states) state.push_back(at::zeros_like(parameter.tensor));
  }
  return groups;
}

std::vector<NamedTensor> named_state(const std::vector<ParameterGroup>& groups,
                                     const std::vector<std::string>& kinds) {
  std::vector<NamedTensor> all;
  for (const ParameterGroup& group : groups)
    for (std::size_t i = 0; i < group.parameters.size(); ++i)
      for (std::size_t kind = 0; kind < kinds.size(); ++kind)
        all.push_back({kinds[kind] + "." + group.parameters[i].name, group.states[kind][i]});
  return all;
}

LossScaler::LossScaler(const c10::Device& device)
    : scale_(at::full({1}, LossScale{}.scale, at::TensorOptions(device).dtype(at::kFloat))),
      found_inf_(at::zeros({1}, scale_.options())),
      skipped_(at::zeros({1}, scale_.options())),
      growth_tracker_(at::zeros({1}, scale_.options().dtype(at::kInt))) {}

at::Tensor LossScaler::scaled(const at::Tensor& loss) const {
  return loss * scale_.squeeze();
}

const at::Tensor& LossScaler::unscale(const std::vector<at::Tensor>& gradients) {
  const c10::AutoGradMode no_grad(false);
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf_, kGrowth, kBackoff, kGrowthInterval);
  skipped_.add_(found_inf_);
  return found_inf_;
}

LossScale LossScaler::values() const {
  const at::Tensor host = at::cat({scale_, growth_tracker_, skipped_}).cpu();
  const auto* values = host.const_data_ptr<float>();
  return {values[0], static_cast<int>(values[1]), static_cast<int>(values[2])};
}

void LossScaler::set(const LossScale& values) {
  const c10::AutoGradMode no_grad(false);
  scale_.fill_(values.scale);
  growth_tracker_.fill_(values.steps_since_overflow);
  skipped_.fill_(values.skipped_steps);
}

void LossScaler::forget_skipped_steps() {
  const c10::AutoGradMode no_grad(false);
  skipped_.zero_();
}

void clip_norm(const std::vector<at::Tensor>& gradients, double most) {
  constexpr double kEpsilon = 1e-6;
  const c10::AutoGradMode no_grad(false);
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2)));
  const at::Tensor factor = (most / (norm + kEpsilon)).clamp_max(1);
  at::_foreach_mul_(gradients, factor);
}

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

void AveragedWeights::count_step() {
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
    const auto found = std::ranges::find(averages_, buffer.name, &NamedTensor::name);
    buffers.push_back(*found);
  }
  return buffers;
}

}  // namespace kiln
