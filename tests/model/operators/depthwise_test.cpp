#include "model/operators/depthwise.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "model/layers.h"
#include "model/operators/autocast.h"
#include "model/operators/depthwise_passes.h"

namespace kiln {
namespace {

constexpr auto kDense = at::MemoryFormat::ChannelsLast;
constexpr std::array kMapTypes{at::kFloat, at::kBFloat16};

// dx, dweight.
using Gradients = std::array<at::Tensor, 2>;

struct DepthwiseLayer {
  at::Tensor x, weight, dy;
  std::int64_t stride;

  DepthwiseLayer(at::IntArrayRef size, std::int64_t kernel, std::int64_t step, at::ScalarType type)
      : stride(step) {
    x = at::randn(size).to(type).contiguous(kDense);
    weight = at::randn({size[1], 1, kernel, kernel}).to(type);
    dy = at::randn({size[0], size[1], (size[2] - 1) / step + 1, (size[3] - 1) / step + 1})
             .to(type)
             .contiguous(kDense);
  }
  std::int64_t kernel() const { return weight.size(2); }
  // LibTorch's, computed in `type`.
  Gradients theirs(at::ScalarType type) const {
    const at::Tensor maps = x.to(type), taps = weight.to(type);
    const auto [dx, dweight, dbias] = at::convolution_backward(
        dy.to(type), maps, taps, at::OptionalIntArrayRef(), {stride, stride},
        {kernel() / 2, kernel() / 2}, {1, 1}, false, {0, 0}, x.size(1), {true, true, false});
    return {dx, dweight};
  }
  Gradients ours() const {
    std::vector<c10::IValue> values{dy, x, weight, stride, c10::List<bool>({true, true})};
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("kiln::depthwise_backward", "")
        .callBoxed(values);
    return {values[0].toTensor(), values[1].toTensor()};
  }
};

double largest_of(const at::Tensor& values) {
  return values.numel() == 0 ? 0 : values.to(at::kDouble).abs().max().item<double>();
}

double error(const at::Tensor& actual, const at::Tensor& exact) {
  return largest_of(actual.to(at::kDouble) - exact);
}

template <typename Use>
void for_each_kind(const Use& use) {
  for (const at::ScalarType type : kMapTypes)
    for (const int kernel : {3, 5, 7})
      for (const int stride : {1, 2}) {
        SCOPED_TRACE(testing::Message() << type << " " << kernel << "x" << kernel << "/" << stride);
        use(type, kernel, stride);
      }
}

// Channels that fill vectors or not, maps smaller than the kernel, of one pixel, of several bands.
const std::vector<std::int64_t> kMapSizes[] = {
    {1, 1, 1, 1},   {2, 3, 5, 9},    {1, 15, 2, 3}, {3, 16, 7, 7},     {18, 17, 14, 13},
    {2, 40, 33, 6}, {1, 4096, 3, 4}, {5, 33, 4, 4}, {1, 16, 120, 150}, {0, 20, 4, 4}};

// A quarter of LibTorch's own error is added for small results, and what float32 rounds anyway.
TEST(Depthwise, GradientsAreAsExactAsLibTorchs) {
  if (depthwise_lanes() == 0) GTEST_SKIP() << "needs AVX2";
  for_each_kind([](at::ScalarType type, int kernel, int stride) {
    for (const auto& size : kMapSizes) {
      SCOPED_TRACE(testing::Message() << at::IntArrayRef(size));
      const DepthwiseLayer layer(size, kernel, stride, type);
      const Gradients exact = layer.theirs(at::kDouble), ours = layer.ours();
      for (std::size_t i = 0; i < ours.size(); ++i) {
        ASSERT_EQ(ours[i].sizes(), exact[i].sizes());
        const double rounding = type == at::kFloat ? 1e-6 : 0.004;
        const double most = i == 1 ? 2e-6 : rounding;
        EXPECT_LE(error(ours[i], exact[i]), most * largest_of(exact[i])) << i;
        if (size[0] == 0) continue;
        // Of a map of one pixel, oneDNN's bfloat16 kernels for AMX leave numbers uninitialized.
        const double theirs = error(layer.theirs(type)[i], exact[i]);
        if (type == at::kBFloat16 && size[2] * size[3] == 1 && !std::isfinite(theirs)) continue;
        EXPECT_LE(error(ours[i], exact[i]), 1.25 * theirs + 1e-6 * largest_of(exact[i])) << i;
      }
    }
  });
}

TEST(Depthwise, VectorsOfAnySizeGiveTheSameBits) {
  if (depthwise_lanes() < 16) GTEST_SKIP() << "needs AVX-512";
  for_each_kind([](at::ScalarType type, int kernel, int stride) {
    const DepthwiseLayer layer({3, 40, 9, 11}, kernel, stride, type);
    const DepthwiseShape shape{
        3, 40, 9, 11, kernel, stride, type == at::kFloat ? MapType::kFloat32 : MapType::kBfloat16};
    const std::int64_t taps = kernel * kernel, channels = shape.padded_channels();
    const at::Tensor packed = at::zeros({taps, channels});
    packed.narrow(1, 0, 40).copy_(layer.weight.view({40, taps}).t());
    const auto all = [&](int lanes) {
      const Gradients found{at::empty_like(layer.x),
                            at::empty({shape.partial_sums(), taps, channels})};
      depthwise_input_gradient(shape, lanes, layer.dy.const_data_ptr(),
                               packed.const_data_ptr<float>(), found[0].mutable_data_ptr());
      depthwise_weight_gradient(shape, lanes, layer.x.const_data_ptr(), layer.dy.const_data_ptr(),
                                found[1].mutable_data_ptr<float>());
      return Gradients{found[0], found[1][0].narrow(1, 0, 40)};
    };
    const Gradients wide = all(16), narrow = all(8), ours = layer.ours();
    for (std::size_t i = 0; i < wide.size(); ++i) EXPECT_TRUE(at::equal(wide[i], narrow[i])) << i;
    EXPECT_TRUE(at::equal(wide[0], ours[0]));
  });
}

TEST(Depthwise, AnyNumberOfThreadsGivesTheSameBits) {
  if (depthwise_lanes() == 0) GTEST_SKIP() << "needs AVX2";
  const int before = at::get_num_threads();
  for_each_kind([](at::ScalarType type, int kernel, int stride) {
    const DepthwiseLayer layer({19, 70, 20, 21}, kernel, stride, type);
    at::set_num_threads(1);
    const Gradients one = layer.ours();
    for (const int threads : {2, 7}) {
      at::set_num_threads(threads);
      const Gradients several = layer.ours();
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_TRUE(at::equal(several[i], one[i])) << threads << " threads, " << i;
    }
  });
  at::set_num_threads(before);
}

// A number that is not finite reaches what it does with LibTorch.
TEST(Depthwise, WhatIsNotFiniteReachesTheSameNumbers) {
  if (depthwise_lanes() == 0) GTEST_SKIP() << "needs AVX2";
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    for_each_kind([&](at::ScalarType type, int kernel, int stride) {
      DepthwiseLayer layer({2, 20, 9, 10}, kernel, stride, type);
      layer.x[0][3][4][9] = number;
      layer.x[1][17][0][0] = number;
      layer.dy[1][4][2][2] = number;
      const Gradients theirs = layer.theirs(at::kDouble), ours = layer.ours();
      for (std::size_t i = 0; i < ours.size(); ++i)
        EXPECT_TRUE(at::equal(ours[i].isfinite(), theirs[i].isfinite())) << i;
    });
}

TEST(Depthwise, TakesMapsOfAnyLayout) {
  if (depthwise_lanes() == 0) GTEST_SKIP() << "needs AVX2";
  for_each_kind([](at::ScalarType type, int kernel, int stride) {
    DepthwiseLayer layer({2, 20, 9, 10}, kernel, stride, type);
    const Gradients dense = layer.ours();
    layer.x = layer.x.contiguous();
    layer.dy = at::stack({layer.dy, layer.dy}, -1).select(-1, 1);
    layer.weight = layer.weight.transpose(2, 3).contiguous().transpose(2, 3);
    const Gradients others = layer.ours();
    for (std::size_t i = 0; i < dense.size(); ++i) EXPECT_TRUE(at::equal(others[i], dense[i])) << i;
  });
}

// The layer as networks call it, with gradients of all it has, in autocast's type.
TEST(Depthwise, ConvolvesInALayer) {
  for_each_kind([](at::ScalarType type, int kernel, int stride) {
    const DepthwiseLayer given({3, 24, 9, 8}, kernel, stride, at::kFloat);
    Conv2d conv({24, 24, kernel, stride, /*groups=*/24, /*has_bias=*/true});
    {
      const at::NoGradGuard no_grad;
      conv.weight().copy_(given.weight);
      conv.bias().normal_();
    }
    const at::Tensor x = given.x.clone().requires_grad_();
    const auto results = [&](const at::Tensor& y, const at::TensorList& inputs) {
      const auto gradients = torch::autograd::grad({y}, inputs.vec(), {given.dy.to(y.dtype())});
      return std::array{y, gradients[0], gradients[1], gradients[2]};
    };
    const auto exact = results(at::conv2d(x.to(at::kDouble), conv.weight().to(at::kDouble),
                                          conv.bias().to(at::kDouble), stride, kernel / 2, 1, 24),
                               {x, conv.weight(), conv.bias()});
    at::Tensor y;
    {
      const Autocast autocast(c10::kCPU, type);
      y = conv.forward(x);
    }
    EXPECT_TRUE(y.is_contiguous(kDense));
    const auto found = results(y, {x, conv.weight(), conv.bias()});
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].scalar_type(), i > 0 ? at::kFloat : type) << i;
      // Without AVX-512, LibTorch's sums of bfloat16 are off by up to 0.017.
      const double most = type == at::kFloat ? 2e-6 : 0.02;
      EXPECT_LE(error(found[i].detach(), exact[i].detach()), most * largest_of(exact[i].detach()))
          << i;
    }
  });
}

TEST(Depthwise, LeavesOtherConvolutionsToLibTorch) {
  const auto own = [](const DepthwiseLayer& layer, std::int64_t groups) {
    return is_own_depthwise(layer.x, layer.weight, layer.stride, groups);
  };
  EXPECT_EQ(own({{2, 8, 9, 9}, 5, 1, at::kFloat}, 8), depthwise_lanes() > 0);
  EXPECT_FALSE(own({{2, 8, 9, 9}, 5, 1, at::kDouble}, 8));
  EXPECT_FALSE(own({{2, 8, 9, 9}, 5, 3, at::kFloat}, 8));
  EXPECT_FALSE(own({{2, 8, 9, 9}, 9, 1, at::kFloat}, 8));
  EXPECT_FALSE(own({{0, 8, 9, 9}, 5, 1, at::kFloat}, 8));
  EXPECT_FALSE(own({{2, 1, 9, 9}, 5, 1, at::kFloat}, 2));
  const Autocast half(c10::kCPU, at::kHalf);
  EXPECT_FALSE(own({{2, 8, 9, 9}, 5, 1, at::kFloat}, 8));
}

}  // namespace
}  // namespace kiln
