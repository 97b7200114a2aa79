#include "model/operators/batch_norm.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace kiln {
namespace {

constexpr double kEps = 1e-5;

struct Kind {
  Activation activation;
  bool adds;
  bool uses_batch = true;
};
constexpr Kind kKinds[] = {{Activation::kNone, false},        {Activation::kRelu, false},
                           {Activation::kHardswish, false},   {Activation::kSilu, false},
                           {Activation::kNone, true},         {Activation::kRelu, true},
                           {Activation::kRelu, false, false}, {Activation::kRelu, true, false}};

std::string name_of(const Kind& kind) {
  static const char* const kNames[] = {"none", "relu", "hardswish", "silu"};
  return std::string(kNames[static_cast<int>(kind.activation)]) + (kind.adds ? "+add" : "") +
         (kind.uses_batch ? "" : " frozen");
}

struct NormCase {
  at::Tensor x, added, dy, weight, bias, mean, variance;
};

NormCase random_norm_case(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const auto maps = [&] {
    return at::randn(shape).to(type).contiguous(at::MemoryFormat::ChannelsLast);
  };
  const std::int64_t channels = shape[1];
  return {maps() * 1.5 + 0.5,
          maps(),
          maps(),
          (at::rand({channels}) + 0.5).to(wide),
          at::randn({channels}).to(wide),
          at::randn({channels}).to(wide),
          (at::rand({channels}) + 0.5).to(wide)};
}

// y, dx, d added, d weight, d bias, running mean and variance.
using Answers = std::vector<at::Tensor>;

at::Tensor variable(const at::Tensor& values, at::ScalarType type) {
  return values.to(type, false, /*copy=*/true).detach().set_requires_grad(true);
}

template <typename Norm>
Answers answers_of(const NormCase& given, at::ScalarType type, at::ScalarType wide,
                   const Norm& norm) {
  const at::Tensor x = variable(given.x, type), added = variable(given.added, type),
                   weight = variable(given.weight, wide), bias = variable(given.bias, wide),
                   mean = given.mean.to(wide, false, true),
                   variance = given.variance.to(wide, false, true);
  const at::Tensor y = norm(x, added, weight, bias, mean, variance);
  y.backward(given.dy.to(type));
  return {y.detach(),    x.grad(),    added.grad().defined() ? added.grad() : at::zeros({0}),
          weight.grad(), bias.grad(), mean,
          variance};
}

Answers ours(const NormCase& given, const Kind& kind) {
  return answers_of(given, given.x.scalar_type(), given.weight.scalar_type(),
                    [&](auto x, auto added, auto weight, auto bias, auto mean, auto variance) {
                      return batch_norm(
                          x, {weight, bias, {mean, variance, 0.1}, kEps, kind.uses_batch, {}},
                          kind.activation, kind.adds ? added : at::Tensor());
                    });
}

Answers libtorchs(const NormCase& given, const Kind& kind, at::ScalarType type,
                  at::ScalarType wide) {
  return answers_of(
      given, type, wide, [&](auto x, auto added, auto weight, auto bias, auto mean, auto variance) {
        at::Tensor y =
            at::batch_norm(x, weight, bias, mean, variance, kind.uses_batch, 0.1, kEps, false);
        if (kind.adds) y = y + added;
        return activated(y, kind.activation);
      });
}

double largest(const at::Tensor& values) {
  return values.numel() == 0 ? 0 : values.to(at::kDouble).abs().max().item<double>();
}

// As a share of the largest value, or of `least`: of what the result is a difference.
double error_of(const at::Tensor& result, const at::Tensor& exact, double least) {
  return largest(result.to(at::kDouble) - exact.to(at::kDouble)) /
         std::max({largest(exact), least, 1e-300});
}

constexpr double kFactor = 2;  // of LibTorch's own error that ours may be, and some roundings more
double few_roundings(at::ScalarType type) {
  return type == at::kDouble ? 1e-14 : 1e-6;
}

void expect_right(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  static const char* const kResults[] = {"y",      "dx",   "d added", "d weight",
                                         "d bias", "mean", "variance"};
  for (const Kind& kind : kKinds) {
    const NormCase given = random_norm_case(shape, type);
    const Answers exact = libtorchs(given, kind, at::kDouble, at::kDouble);
    const Answers theirs = libtorchs(given, kind, type, given.weight.scalar_type());
    const Answers mine = ours(given, kind);
    const at::Tensor spread = given.x.to(at::kDouble).var({0, 2, 3}, /*unbiased=*/false);
    const double steepest = largest(given.dy) * largest((spread + kEps).rsqrt());
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double least = i == 1 ? steepest : 0;
      EXPECT_LE(error_of(mine[i], exact[i], least),
                kFactor * error_of(theirs[i], exact[i], least) + few_roundings(type))
          << kResults[i] << ", " << name_of(kind) << ", " << given.x.sizes() << ", " << type;
    }
  }
}

TEST(BatchNorm, IsAsExactAsLibTorchs) {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const std::int64_t channels : {1, 3, 15, 16, 17, 24, 40, 64, 4096})
      expect_right({3, channels, 5, channels == 4096 ? 2 : 7}, type);
}

TEST(BatchNorm, IsAsExactForOneImageAndManyRows) {
  at::manual_seed(4);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    expect_right({1, 20, 2, 2}, type);
    expect_right({2, 8, 1, 1}, type);
    expect_right({8, 24, 57, 57}, type);
  }
}

// Whatever their number, and in the order of rows that was chosen for the shape alone.
TEST(BatchNorm, HasTheSameBitsWithAnyNumberOfThreads) {
  at::manual_seed(5);
  const int before = at::get_num_threads();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
    for (const std::int64_t channels : {24, 1040})
      for (const Kind& kind : kKinds) {
        const NormCase given = random_norm_case({3, channels, 19, 17}, type);
        at::set_num_threads(1);
        const Answers alone = ours(given, kind);
        for (const int threads : {2, 7}) {
          at::set_num_threads(threads);
          const Answers together = ours(given, kind);
          for (std::size_t i = 0; i < alone.size(); ++i)
            EXPECT_TRUE(alone[i].equal(together[i])) << i << name_of(kind) << threads << type;
        }
      }
  at::set_num_threads(before);
}

// Differences of the sum of y * dy, in float64.
TEST(BatchNorm, HasTheGradientsOfItsValues) {
  at::manual_seed(6);
  for (const Kind& kind : kKinds) {
    const NormCase given = random_norm_case({3, 5, 2, 3}, at::kDouble);
    const Answers answers = ours(given, kind);
    for (const auto& [part, which] : {std::pair(&NormCase::x, 1),
                                      {&NormCase::added, 2},
                                      {&NormCase::weight, 3},
                                      {&NormCase::bias, 4}}) {
      if (part == &NormCase::added && !kind.adds) continue;
      const at::Tensor direction = at::randn_like(given.*part);
      const auto sum_at = [&](double step) {
        NormCase moved = given;
        moved.*part = given.*part + direction * step;
        return (ours(moved, kind)[0] * given.dy).sum().item<double>();
      };
      const double slope = (sum_at(1e-6) - sum_at(-1e-6)) / 2e-6;
      EXPECT_NEAR(slope,
                  (answers[static_cast<std::size_t>(which)] * direction).sum().item<double>(), 1e-6)
          << which << name_of(kind);
    }
  }
}

NormCase made_of(const at::Tensor& x) {
  NormCase given = random_norm_case(x.sizes().vec(), x.scalar_type());
  given.x = x.contiguous(at::MemoryFormat::ChannelsLast);
  return given;
}

// Sums of squares would lose all of the variance.
TEST(BatchNorm, KeepsTheVarianceOfNumbersFarFromZeroAndOfOutliers) {
  at::manual_seed(7);
  const at::Tensor small = at::randn({64, 16, 8, 8});
  at::Tensor outlier = small * 1e-3;
  outlier.select(0, 0).select(1, 0).select(1, 0).fill_(1000);
  for (const at::Tensor& x : {small + 1000, outlier}) {
    const NormCase given = made_of(x);
    const at::Tensor exact = given.x.to(at::kDouble).var({0, 2, 3});
    const at::Tensor moved = ours(given, {Activation::kNone, false})[6];
    EXPECT_LT(largest((moved - given.variance * 0.9) / 0.1 / exact - 1), 1e-5);
  }
}

// One value a channel has no unbiased variance; NaN and infinite numbers spoil their channel alone.
TEST(BatchNorm, AnswersAsLibTorchWhereThereIsNoAnswer) {
  at::manual_seed(8);
  const at::Tensor spoiled = at::randn({2, 4, 3, 3});
  spoiled.select(1, 1).select(0, 1).select(0, 2).fill_(std::numeric_limits<float>::quiet_NaN());
  spoiled.select(1, 2).select(0, 0).select(0, 1).fill_(std::numeric_limits<float>::infinity());
  for (const at::Tensor& x : {at::randn({1, 3, 1, 1}), spoiled})
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble})
      for (const Kind& kind : kKinds) {
        const NormCase given = made_of(x.to(type));
        const Answers theirs = libtorchs(given, kind, type, given.weight.scalar_type());
        const Answers mine = ours(given, kind);
        for (std::size_t i = 0; i < mine.size(); ++i)
          EXPECT_TRUE(mine[i].isfinite().equal(theirs[i].isfinite()))
              << i << name_of(kind) << x.sizes() << type;
      }
}

TEST(BatchNorm, LearnsNothingFromNoImages) {
  const NormCase given = made_of(at::zeros({0, 3, 4, 5}));
  const Answers answers = ours(given, {Activation::kRelu, true});
  EXPECT_EQ(answers[0].sizes(), given.x.sizes());
  EXPECT_TRUE(answers[5].equal(given.mean));
  EXPECT_TRUE(answers[6].equal(given.variance));
}

}  // namespace
}  // namespace kiln
