#include "train/optimizer/optimizer.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "base/error.h"
#include "train/optimizer/catalogue.h"

namespace kiln {
namespace {

at::Tensor parameter(const at::Tensor& start) {
  return start.clone().contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
}

// A group of one parameter, whose gradient is of the parameter's strides.
ParameterGroup group_of(const std::string& name, const at::Tensor& tensor, double weight_decay) {
  tensor.mutable_grad() = at::zeros_like(tensor);
  return {{{name, tensor}}, {tensor.grad()}, weight_decay};
}

void descend(const at::Tensor& tensor, const at::Tensor& target) {
  tensor.mutable_grad().zero_();
  (tensor - target).pow(2).sum().backward();
}

// LibTorch's own SGD, a tensor at a time, is the reference.
TEST(Sgd, EqualsTheFrameworksNesterov) {
  at::manual_seed(3);
  const at::Tensor start = at::randn({4, 3, 3, 3});
  const at::Tensor target = at::randn({4, 3, 3, 3});
  const at::Tensor ours = parameter(start);
  const auto optimizer = make_optimizer({}, {group_of("w", ours, 1e-4)});
  at::Tensor theirs = start.clone().set_requires_grad(true);
  torch::optim::SGD reference(
      std::vector<at::Tensor>{theirs},
      torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(1e-4));
  for (int step = 0; step < 5; ++step) {
    descend(ours, target);
    optimizer->step(0.1);
    reference.zero_grad();
    (theirs - target).pow(2).sum().backward();
    reference.step();
  }
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6));
}

TEST(Sgd, DecaysTheGroupsThatAskForItAndLeavesOtherTensorsAlone) {
  const at::Tensor start = at::ones({2, 1, 1, 1});
  const at::Tensor decayed = parameter(start), plain = parameter(start), frozen = parameter(start);
  const auto optimizer = make_optimizer({}, {group_of("a", decayed, 0.5), group_of("b", plain, 0)});
  optimizer->step(0.1);  // gradients are zero
  EXPECT_TRUE((decayed < 1).all().item<bool>());
  EXPECT_TRUE(at::equal(plain, start));
  EXPECT_TRUE(at::equal(frozen, start));
}

TEST(Sgd, AGroupMayHaveARateOfItsOwn) {
  const at::Tensor start = at::ones({2, 1, 1, 1});
  const at::Tensor slow = parameter(start), fast = parameter(start);
  ParameterGroup head = group_of("b", fast, 0);
  head.rate = 10;
  const auto optimizer = make_optimizer({}, {group_of("a", slow, 0), head});
  slow.grad().fill_(1);
  fast.grad().fill_(1);
  optimizer->step(0.01);
  EXPECT_TRUE(at::allclose((start - fast), 10 * (start - slow)));
  EXPECT_FALSE(at::equal(slow, start));
}

// Of a network whose backbone is frozen the head alone has momentum.
TEST(Groups, HoldWhatIsTrained) {
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 3});
  model->freeze(Freeze::kBackbone);
  const std::vector<at::Tensor> gradients = {at::zeros({3, 512}), at::zeros({3})};
  for (const double head_rate : {1.0, 5.0}) {
    const auto groups = groups_of(*model, gradients, {.head_rate = head_rate});
    ASSERT_EQ(groups.size(), 1U);
    EXPECT_EQ(groups[0].rate, head_rate);
    EXPECT_EQ(make_optimizer({}, groups)->state().size(), 2U);
  }
  model->freeze(Freeze::kNone);
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : model->parameters()) all.push_back(at::zeros_like(tensor));
  const auto groups = groups_of(*model, all, {.head_rate = 5});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].rate, 1);
  EXPECT_EQ(groups[1].parameters.size(), 2U);
  EXPECT_EQ(groups[0].parameters.size() + 2, all.size());
}

TEST(Groups, HaveTheRatesOfTheirStages) {
  const auto model = make_image_model({.model_name = "vit_s_16", .num_classes = 2});
  model->freeze(static_cast<Freeze>(10));
  std::vector<at::Tensor> gradients;
  for (const NamedTensor& item : model->trained_parameters()) gradients.push_back(item.tensor);
  const auto groups = groups_of(*model, gradients, {.head_rate = 3, .layer_decay = 0.5});
  ASSERT_EQ(groups.size(), 3U);
  const std::vector<std::pair<double, std::string>> expected = {
      {0.25, "model.blocks.10."}, {0.5, "model.blocks.11."}, {3, "model.head."}};
  for (std::size_t i = 0; i < groups.size(); ++i) {
    EXPECT_EQ(groups[i].rate, expected[i].first);
    EXPECT_TRUE(groups[i].parameters.front().name.starts_with(expected[i].second));
    for (std::size_t k = 0; k < groups[i].parameters.size(); ++k)
      EXPECT_TRUE(groups[i].gradients[k].is_same(groups[i].parameters[k].tensor));
  }
}

// A scale, though it has three dimensions.
TEST(Groups, LayerScalesAreScales) {
  const auto model = make_image_model({.model_name = "convnext_tiny", .num_classes = 2});
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : model->parameters()) gradients.push_back(tensor);
  const auto groups =
      groups_of(*model, gradients, {.weight_decay = 0.05, .decays_norm_and_bias = false});
  ASSERT_EQ(groups.size(), 2U);
  for (const NamedTensor& decayed : groups[0].parameters)
    EXPECT_EQ(decayed.name.find("layer_scale"), std::string::npos) << decayed.name;
}

TEST(Sgd, GoesOnFromTheStateOfAnother) {
  at::manual_seed(4);
  const at::Tensor target = at::randn({4, 3, 3, 3});
  const at::Tensor first = parameter(at::randn({4, 3, 3, 3}));
  const auto one = make_optimizer({}, {group_of("w", first, 1e-4)});
  for (int step = 0; step < 3; ++step) {
    descend(first, target);
    one->step(0.1);
  }
  const at::Tensor second = parameter(first.detach());
  const auto other = make_optimizer({}, {group_of("w", second, 1e-4)});
  ASSERT_EQ(other->state().size(), 1u);
  EXPECT_EQ(other->state()[0].name, "momentum.w");
  other->state()[0].tensor.copy_(one->state()[0].tensor);
  for (const auto& [tensor, optimizer] : {std::pair(first, one.get()), {second, other.get()}}) {
    descend(tensor, target);
    optimizer->step(0.1);
  }
  EXPECT_TRUE(at::equal(first, second));
}

TEST(Sgd, SkipsAStepWhoseFlagIsSet) {
  at::manual_seed(5);
  const at::Tensor tensor = parameter(at::randn({4, 3, 3, 3}));
  const auto optimizer = make_optimizer({}, {group_of("w", tensor, 1e-4)});
  descend(tensor, at::zeros({4, 3, 3, 3}));
  optimizer->step(0.1, at::zeros({1}));
  const at::Tensor weight = tensor.detach().clone();
  const at::Tensor momentum = optimizer->state()[0].tensor.clone();
  optimizer->step(0.1, at::ones({1}));
  EXPECT_TRUE(at::equal(tensor, weight));
  EXPECT_TRUE(at::equal(optimizer->state()[0].tensor, momentum));
  optimizer->step(0.1, at::zeros({1}));
  EXPECT_FALSE(at::equal(tensor, weight));
}

TEST(AdamW, EqualsTheFrameworks) {
  at::manual_seed(3);
  const at::Tensor start = at::randn({4, 3, 3, 3}), target = at::randn({4, 3, 3, 3});
  const at::Tensor ours = parameter(start);
  const auto optimizer =
      make_optimizer({.name = "adamw", .momentum = 0.8}, {group_of("w", ours, 0.05)});
  at::Tensor theirs = start.clone().set_requires_grad(true);
  torch::optim::AdamW reference(
      std::vector<at::Tensor>{theirs},
      torch::optim::AdamWOptions(0.01).betas({0.8, 0.999}).weight_decay(0.05));
  for (int step = 0; step < 5; ++step) {
    descend(ours, target);
    optimizer->step(0.01);
    reference.zero_grad();
    (theirs - target).pow(2).sum().backward();
    reference.step();
  }
  EXPECT_TRUE(at::allclose(ours, theirs, 1e-5, 1e-6));
}

TEST(Groups, WithoutDecayHoldWhatHasOneDimension) {
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 3});
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& tensor : model->parameters()) gradients.push_back(at::zeros_like(tensor));
  OptimizerPlan plan;
  plan.decays_norm_and_bias = false;
  for (const double head_rate : {1.0, 5.0}) {
    plan.head_rate = head_rate;
    const auto groups = groups_of(*model, gradients, plan);
    ASSERT_EQ(groups.size(), head_rate == 1 ? 2U : 4U);
    std::size_t count = 0;
    for (const ParameterGroup& group : groups)
      for (const NamedTensor& item : group.parameters) {
        EXPECT_EQ(group.weight_decay == 0, item.tensor.dim() == 1) << item.name;
        EXPECT_EQ(group.rate == 5, head_rate == 5 && item.name.starts_with("model.fc."))
            << item.name;
        ++count;
      }
    EXPECT_EQ(count, gradients.size());
  }
}

TEST(Optimizers, WorkWithoutMomentum) {
  for (const KnownOptimizer& known : kKnownOptimizers) {
    const std::string name(known.name);
    const at::Tensor tensor = parameter(at::ones({2, 2, 1, 1}));
    const auto optimizer =
        make_optimizer({.name = name, .momentum = 0}, {group_of("w", tensor, 0)});
    for (int step = 0; step < 2; ++step) {
      tensor.mutable_grad().fill_(1);
      optimizer->step(0.1);
    }
    EXPECT_TRUE((tensor < 1).all().item<bool>()) << name;
    if (name == "sgd") {
      EXPECT_TRUE(at::allclose(tensor, at::full_like(tensor, 0.8)));
    }
  }
}

// State of each can be set, and a step can be skipped.
TEST(Optimizers, GoOnFromTheStateOfAnotherAndSkipSteps) {
  for (const KnownOptimizer& known : kKnownOptimizers) {
    const std::string name(known.name);
    at::manual_seed(7);
    const at::Tensor target = at::randn({4, 3, 3, 3});
    const at::Tensor first = parameter(at::randn({4, 3, 3, 3}));
    const auto one = make_optimizer({.name = name}, {group_of("w", first, 1e-4)});
    for (const float skip : {0.0F, 1.0F, 0.0F}) {
      descend(first, target);
      const at::Tensor before = first.detach().clone();
      one->step(0.01, at::full({1}, skip));
      EXPECT_EQ(at::equal(first, before), skip == 1) << name;
    }
    const at::Tensor second = parameter(first.detach());
    const auto other = make_optimizer({.name = name}, {group_of("w", second, 1e-4)});
    const auto from = one->state(), to = other->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      at::Tensor(to[i].tensor).copy_(from[i].tensor);
    }
    for (const auto& [tensor, optimizer] : {std::pair(first, one.get()), {second, other.get()}}) {
      descend(tensor, target);
      optimizer->step(0.01);
    }
    EXPECT_TRUE(at::equal(first, second)) << name;
  }
}

TEST(Optimizer, RefusesANameThatIsInNoRow) {
  EXPECT_THROW(make_optimizer({.name = "adam"}, {}), InternalError);
}

}  // namespace
}  // namespace kiln
