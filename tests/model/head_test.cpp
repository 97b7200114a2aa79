// A network with a layer between the means of its feature maps and its last layer.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <memory>
#include <string>
#include <vector>

#include "model/networks.h"

namespace kiln {
namespace {

class TwoLayerHead : public Network {
 public:
  TwoLayerHead() {
    conv_ = register_module("conv", std::make_shared<Conv2d>(ConvShape{3, 8, 3, 2}));
    hidden_ = register_module("hidden", std::make_shared<Linear>(8, 6));
    last_ = register_module("last", std::make_shared<Linear>(6, 3));
  }
  at::Tensor features(const at::Tensor& images) override { return conv_->forward(images).relu(); }
  at::Tensor head_input(const at::Tensor& means) override {
    return at::hardswish(hidden_->forward(means));
  }
  Linear& head() override { return *last_; }
  void initialize() override {
    hidden_->initialize();
    last_->initialize();
    init_convolutions(*this, Fan::kOut);
  }
  Kept kept() const override { return {.numbers = 4}; }
  StageNames stages() const override { return {"stages."}; }  // it has none

 private:
  std::shared_ptr<Conv2d> conv_;
  std::shared_ptr<Linear> hidden_, last_;
};

class Head : public testing::Test {
 protected:
  Head() { at::manual_seed(5); }

  std::shared_ptr<TwoLayerHead> network_ = std::make_shared<TwoLayerHead>();
  std::unique_ptr<ImageModel> model_ =
      image_model_of(network_, {.model_name = "", .num_classes = 3});
  at::Tensor images_ = at::randn({2, 3, 16, 16});
};

TEST_F(Head, IsTheLastLayerAlone) {
  const std::vector<NamedTensor> head = model_->head();
  ASSERT_EQ(head.size(), 2U);
  EXPECT_EQ(head[0].name, "model.last.weight");
  EXPECT_EQ(head[1].name, "model.last.bias");
  const at::Tensor input = model_->pooled_features(images_);
  EXPECT_EQ(input.sizes(), (std::vector<std::int64_t>{2, 6}));
  EXPECT_TRUE(at::allclose(model_->forward(images_), input.mm(head[0].tensor.t()) + head[1].tensor,
                           1e-5, 1e-6));
}

TEST_F(Head, AloneLearnsWithAFrozenBackbone) {
  model_->freeze(Freeze::kBackbone);
  EXPECT_FALSE(model_->pooled_features(images_).requires_grad());
  model_->forward(images_).sum().backward();
  for (const NamedTensor& item : model_->named_parameters())
    EXPECT_EQ(item.tensor.grad().defined(), item.name.starts_with("model.last.")) << item.name;
}

TEST_F(Head, ClassMapsAreThoseOfGradCam) {
  const at::Tensor maps = model_->class_maps(images_, {2, 0});
  const at::Tensor features = network_->features(images_).detach().requires_grad_();
  const at::Tensor logits = network_->head().forward(network_->head_input(features.mean({2, 3})));
  const at::Tensor gradient =
      torch::autograd::grad({logits[0][2] + logits[1][0]}, {features}).front();
  at::Tensor wanted = (gradient.mean({2, 3}, /*keepdim=*/true) * features).sum(1).relu().detach();
  wanted = wanted / wanted.amax({1, 2}, /*keepdim=*/true);
  EXPECT_TRUE(at::allclose(maps, wanted, 1e-4, 1e-5));
}

}  // namespace
}  // namespace kiln
