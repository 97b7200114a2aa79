#include "train/optimizer/optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "model/image_model.h"

namespace kiln {
namespace {

at::Tensor tensor_of(const std::vector<NamedTensor>& state, const std::string& name) {
  return std::find_if(state.begin(), state.end(),
                      [&](const NamedTensor& item) { return item.name == name; })
      ->tensor;
}

class AveragedWeightsTest : public testing::Test {
 protected:
  void set(double value) {
    const at::NoGradGuard no_grad;
    tensor_of(model_->state(), "model.fc.bias").fill_(value);
    tensor_of(model_->state(), "model.bn1.running_mean").fill_(value);
    tensor_of(model_->state(), "model.bn1.num_batches_tracked").fill_(value);
  }
  double weight() const { return tensor_of(model_->state(), "model.fc.bias")[0].item<double>(); }

  std::unique_ptr<ImageModel> model_ =
      make_image_model({.model_name = "resnet18", .num_classes = 3});
};

TEST_F(AveragedWeightsTest, FollowTheirDefinition) {
  set(1);
  AveragedWeights averages(*model_, 0.5);
  double expected = 1;
  for (int n = 0; n < 20; ++n) {
    set(n);
    averages.count_step();
    const double decay = std::min(0.5, (1.0 + n) / (10.0 + n));
    expected += (1 - decay) * (n - expected);
  }
  EXPECT_NEAR(tensor_of(averages.state(), "model.fc.bias")[1].item<double>(), expected, 1e-5);
  EXPECT_NEAR(tensor_of(averages.buffers(), "model.bn1.running_mean")[0].item<double>(), expected,
              1e-5);
  EXPECT_EQ(tensor_of(averages.state(), "model.bn1.num_batches_tracked").item<std::int64_t>(), 19);
  EXPECT_EQ(averages.steps(), 20);
}

TEST_F(AveragedWeightsTest, AreInTheModelForAsLongAsTheyAreAskedFor) {
  set(1);
  AveragedWeights averages(*model_, 0.5);
  set(2);
  {
    const AveragesInPlace in_place(&averages);
    EXPECT_EQ(weight(), 1);
  }
  EXPECT_EQ(weight(), 2);
  EXPECT_EQ(tensor_of(averages.state(), "model.fc.bias")[0].item<double>(), 1);
  const AveragesInPlace none(nullptr);
  EXPECT_EQ(weight(), 2);
}

TEST_F(AveragedWeightsTest, GoOnFromTheirState) {
  set(1);
  AveragedWeights first(*model_, 0.9), second(*model_, 0.9);
  set(3);
  first.count_step();
  for (std::size_t i = 0; i < first.state().size(); ++i)
    at::Tensor(second.state()[i].tensor).copy_(first.state()[i].tensor);
  second.set_steps(first.steps());
  set(5);
  first.count_step();
  second.count_step();
  for (std::size_t i = 0; i < first.state().size(); ++i)
    EXPECT_TRUE(at::equal(first.state()[i].tensor, second.state()[i].tensor));
}

}  // namespace
}  // namespace kiln
