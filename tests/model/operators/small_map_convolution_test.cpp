#include "model/operators/small_map_convolution.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <vector>

#include "model/layers.h"
#include "model/operators/autocast.h"

namespace kiln {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

struct Case {
  std::int64_t kernel, stride, height, width;
  bool has_bias = false;
};

// Kernels that lie inside of the map in part or not at all, and pixels that no window has.
constexpr Case kCases[] = {{3, 1, 1, 1},       {3, 1, 2, 2}, {3, 1, 1, 3}, {3, 2, 1, 1},
                           {3, 2, 2, 2},       {3, 2, 4, 3}, {1, 1, 2, 2}, {1, 1, 1, 1, true},
                           {1, 2, 4, 4},       {1, 2, 3, 2}, {7, 2, 3, 3}, {5, 1, 2, 1},
                           {2, 2, 4, 4, true}, {2, 2, 3, 5}};

// A layer, its input, and the gradient of its output.
struct Layer {
  Conv2d conv;
  at::Tensor x, dy;

  explicit Layer(const Case& given)
      : conv({24, 40, given.kernel, given.stride, /*groups=*/1, given.has_bias}) {
    const at::NoGradGuard no_grad;
    conv.weight().set_data(at::randn(conv.weight().sizes()).contiguous(kChannelsLast));
    if (given.has_bias) conv.bias().normal_();
    x = at::randn({5, 24, given.height, given.width}).contiguous(kChannelsLast).requires_grad_();
    dy = at::randn_like(expected(x));
  }
  at::Tensor expected(const at::Tensor& images) {
    const at::Tensor bias = conv.bias().defined() ? conv.bias().to(images.dtype()) : at::Tensor();
    return at::conv2d(images, conv.weight().to(images.dtype()), bias, conv.stride(),
                      padding_of(conv.weight().size(2)));
  }
  bool is_small_map() {
    return kiln::is_small_map(x, conv.weight(), {conv.stride(), padding_of(conv.weight().size(2))});
  }
  // y, dx, dweight.
  std::array<at::Tensor, 3> results(const at::Tensor& y) {
    const auto gradients = torch::autograd::grad({y}, {x, conv.weight()}, {dy.to(y.scalar_type())});
    return {y, gradients[0], gradients[1]};
  }
};

double distance(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b.to(at::kDouble)).norm() / b.to(at::kDouble).norm()).item<double>();
}

TEST(SmallMapConvolution, IsTheConvolutionAndItsGradients) {
  for (const Case& given : kCases) {
    SCOPED_TRACE(testing::Message() << given.kernel << " " << given.stride << " " << given.height
                                    << "x" << given.width);
    Layer layer(given);
    EXPECT_TRUE(layer.is_small_map());
    const auto expected = layer.results(layer.expected(layer.x.to(at::kDouble)));
    const auto actual = layer.results(layer.conv.forward(layer.x));
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_LT(distance(actual[i], expected[i]), 1e-6) << i;
    EXPECT_EQ(actual[2].strides(), layer.conv.weight().strides());  // as the optimizer wants it
  }
}

// Rounding to bfloat16 takes up to 0.0039 of a number.
TEST(SmallMapConvolution, RoundsAsUsualInBfloat16) {
  for (const Case& given : kCases) {
    SCOPED_TRACE(testing::Message() << given.kernel << " " << given.stride << " " << given.height
                                    << "x" << given.width);
    Layer layer(given);
    const auto exact = layer.results(layer.expected(layer.x.to(at::kDouble)));
    const auto results = [&](auto forward) {
      at::Tensor y;
      {
        const Autocast bf16(c10::kCPU, c10::kBFloat16);
        y = forward();
      }
      EXPECT_EQ(y.scalar_type(), at::kBFloat16);
      return layer.results(y);
    };
    const auto actual = results([&] { return layer.conv.forward(layer.x); });
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_LT(distance(actual[i], exact[i]), 0.005) << i;
  }
}

TEST(SmallMapConvolution, LeavesLargeMapsEmptyBatchesAndInferenceAlone) {
  EXPECT_FALSE(Layer({3, 1, 3, 2}).is_small_map());
  Layer layer({3, 1, 2, 2});
  layer.x = layer.x.detach();
  layer.conv.eval();
  EXPECT_TRUE(at::equal(layer.conv.forward(layer.x), layer.expected(layer.x)));
  layer.conv.train();
  EXPECT_FALSE(at::equal(layer.conv.forward(layer.x), layer.expected(layer.x)));
  layer.x = layer.x.narrow(0, 0, 0);
  EXPECT_EQ(layer.conv.forward(layer.x).sizes(), (std::vector<std::int64_t>{0, 40, 2, 2}));
}

}  // namespace
}  // namespace kiln
