#include "train/optimizer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "base/error.h"

namespace kiln {
namespace {

at::Tensor parameter(const at::Tensor& start) {
  return start.clone().contiguous(at::MemoryFormat::ChannelsLast).set_requires_grad(true);
}

// A group of one parameter, whose gradient is of the parameter's strides.
ParameterGroup group_of(const std::string& name, const at::Tensor& tensor, double weight_decay) {
  tensor.mutable_grad() = torch::zeros_like(tensor);
  return {{{name, tensor}}, {tensor.grad()}, weight_decay};
}

void descend(const at::Tensor& tensor, const at::Tensor& target) {
  tensor.mutable_grad().zero_();
  (tensor - target).pow(2).sum().backward();
}

// LibTorch's own SGD, a tensor at a time, is the reference.
TEST(Sgd, EqualsTheFrameworksNesterov) {
  torch::manual_seed(3);
  const at::Tensor start = torch::randn({4, 3, 3, 3});
  const at::Tensor target = torch::randn({4, 3, 3, 3});
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
  EXPECT_TRUE(torch::allclose(ours, theirs, 1e-5, 1e-6));
}

TEST(Sgd, DecaysTheGroupsThatAskForItAndLeavesOtherTensorsAlone) {
  const at::Tensor start = torch::ones({2, 1, 1, 1});
  const at::Tensor decayed = parameter(start), plain = parameter(start), frozen = parameter(start);
  const auto optimizer = make_optimizer({}, {group_of("a", decayed, 0.5), group_of("b", plain, 0)});
  optimizer->step(0.1);  // gradients are zero
  EXPECT_TRUE((decayed < 1).all().item<bool>());
  EXPECT_TRUE(torch::equal(plain, start));
  EXPECT_TRUE(torch::equal(frozen, start));
}

TEST(Sgd, AGroupMayHaveARateOfItsOwn) {
  const at::Tensor start = torch::ones({2, 1, 1, 1});
  const at::Tensor slow = parameter(start), fast = parameter(start);
  ParameterGroup head = group_of("b", fast, 0);
  head.rate = 10;
  const auto optimizer = make_optimizer({}, {group_of("a", slow, 0), head});
  slow.grad().fill_(1);
  fast.grad().fill_(1);
  optimizer->step(0.01);
  EXPECT_TRUE(torch::allclose((start - fast), 10 * (start - slow)));
  EXPECT_FALSE(torch::equal(slow, start));
}

// Of a network whose backbone is frozen the head alone has momentum.
TEST(Groups, HoldWhatIsTrained) {
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 3});
  model->freeze(Freeze::kBackbone);
  const std::vector<at::Tensor> gradients = {torch::zeros({3, 512}), torch::zeros({3})};
  for (const double head_rate : {1.0, 5.0}) {
    const auto groups = groups_of(*model, gradients, {.head_rate = head_rate});
    ASSERT_EQ(groups.size(), 1U);
    EXPECT_EQ(groups[0].rate, head_rate);
    EXPECT_EQ(make_optimizer({}, groups)->state().size(), 2U);
  }
  model->freeze(Freeze::kNone);
  std::vector<at::Tensor> all;
  for (const at::Tensor& tensor : model->parameters()) all.push_back(torch::zeros_like(tensor));
  const auto groups = groups_of(*model, all, {.head_rate = 5});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].rate, 1);
  EXPECT_EQ(groups[1].parameters.size(), 2U);
  EXPECT_EQ(groups[0].parameters.size() + 2, all.size());
}

TEST(Sgd, GoesOnFromTheStateOfAnother) {
  torch::manual_seed(4);
  const at::Tensor target = torch::randn({4, 3, 3, 3});
  const at::Tensor first = parameter(torch::randn({4, 3, 3, 3}));
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
  EXPECT_TRUE(torch::equal(first, second));
}

TEST(Sgd, SkipsAStepWhoseFlagIsSet) {
  torch::manual_seed(5);
  const at::Tensor tensor = parameter(torch::randn({4, 3, 3, 3}));
  const auto optimizer = make_optimizer({}, {group_of("w", tensor, 1e-4)});
  descend(tensor, torch::zeros({4, 3, 3, 3}));
  optimizer->step(0.1, torch::zeros({1}));
  const at::Tensor weight = tensor.detach().clone();
  const at::Tensor momentum = optimizer->state()[0].tensor.clone();
  optimizer->step(0.1, torch::ones({1}));
  EXPECT_TRUE(torch::equal(tensor, weight));
  EXPECT_TRUE(torch::equal(optimizer->state()[0].tensor, momentum));
  optimizer->step(0.1, torch::zeros({1}));
  EXPECT_FALSE(torch::equal(tensor, weight));
}

TEST(Optimizer, RefusesANameThatIsInNoRow) {
  EXPECT_THROW(make_optimizer({.name = "adam"}, {}), InternalError);
}

}  // namespace
}  // namespace kiln
