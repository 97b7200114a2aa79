// Fresh weights follow torchvision's rules.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/image_model.h"

namespace kiln {
namespace {

std::unique_ptr<ImageModel> fresh(const ModelOptions& options) {
  at::manual_seed(3);
  return make_image_model(options);
}

// Normal with mean 0 and the given deviation, within five standard errors.
void expect_normal(const NamedTensor& item, double deviation) {
  const double n = static_cast<double>(item.tensor.numel());
  EXPECT_NEAR(item.tensor.mean().item<double>(), 0.0, 5 * deviation / std::sqrt(n)) << item.name;
  EXPECT_NEAR(item.tensor.std().item<double>(), deviation, 5 * deviation / std::sqrt(2 * n))
      << item.name;
  EXPECT_GT(item.tensor.abs().max().item<double>(), 2 * deviation) << item.name << " is not normal";
}

void expect_convolutions_with_fan(const ImageModel& model, int fan_dimension) {
  for (const NamedTensor& item : model.state()) {
    if (item.tensor.dim() != 4) continue;
    const double fan = static_cast<double>(item.tensor.size(fan_dimension) * item.tensor.size(2) *
                                           item.tensor.size(3));
    expect_normal(item, std::sqrt(2.0 / fan));
  }
}

double extreme(const NamedTensor& item) {
  return item.tensor.abs().max().item<double>();
}

TEST(Initialization, ResNetConvolutionsByFanOut) {
  expect_convolutions_with_fan(*fresh({.model_name = "resnet50"}), 0);
  expect_convolutions_with_fan(*fresh({.model_name = "resnext50_32x4d"}), 0);
}

TEST(Initialization, DenseNetConvolutionsByFanIn) {
  expect_convolutions_with_fan(*fresh({.model_name = "densenet121"}), 1);
}

TEST(Initialization, NormalizationStartsAsIdentity) {
  for (const char* name : {"resnet50", "densenet121"}) {
    for (const NamedTensor& item : fresh({.model_name = name})->state()) {
      const bool is_head = item.name.find("fc.") != std::string::npos ||
                           item.name.find("classifier.") != std::string::npos;
      if (item.tensor.dim() > 1 || is_head) continue;
      const bool is_one = item.name.ends_with("weight") || item.name.ends_with("running_var");
      EXPECT_TRUE(item.tensor.eq(is_one ? 1 : 0).all().item<bool>()) << item.name;
    }
  }
}

TEST(Initialization, ResNetHeadIsUniform) {
  const auto state = fresh({.model_name = "resnet18"})->state();
  const double bound = 1 / std::sqrt(512.0);
  for (std::size_t i = state.size() - 2; i < state.size(); ++i) {
    EXPECT_LE(extreme(state[i]), bound) << state[i].name;
    EXPECT_GT(extreme(state[i]), 0.98 * bound) << state[i].name;
    EXPECT_NEAR(state[i].tensor.std().item<double>(), bound / std::sqrt(3.0), 0.1 * bound)
        << state[i].name;
  }
}

TEST(Initialization, DenseNetHeadHasNoBias) {
  const auto state = fresh({.model_name = "densenet121"})->state();
  EXPECT_EQ(extreme(state.back()), 0.0);
  const double bound = 1 / std::sqrt(1024.0);
  EXPECT_LE(extreme(state[state.size() - 2]), bound);
  EXPECT_GT(extreme(state[state.size() - 2]), 0.98 * bound);
}

TEST(Initialization, ZeroInitResidualZeroesTheLastNormOfEachBlock) {
  for (const auto& [name, last] :
       {std::pair{"resnet18", ".bn2.weight"}, std::pair{"resnet50", ".bn3.weight"}}) {
    int zeroed = 0;
    for (const NamedTensor& item :
         fresh({.model_name = name, .zero_init_residual = true})->state()) {
      if (!item.name.ends_with("weight") || item.tensor.dim() != 1) continue;
      const bool is_last = item.name.ends_with(last);
      EXPECT_EQ(extreme(item), is_last ? 0.0 : 1.0) << item.name;
      zeroed += is_last;
    }
    EXPECT_EQ(zeroed, std::string(name) == "resnet18" ? 8 : 16);
  }
}

}  // namespace
}  // namespace kiln
