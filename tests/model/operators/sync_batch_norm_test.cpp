#include "model/operators/batch_norm.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>
#include <gtest/gtest.h>

#include <barrier>
#include <mutex>
#include <thread>

#include "model/layers.h"

namespace kiln {
namespace {

constexpr double kEpsilon = 1e-5;

// Sums over the threads that share it, as ranks would.
class SumOverThreads {
 public:
  explicit SumOverThreads(int size) : all_added_(size), all_copied_(size, Forget{&sum_}) {}
  void operator()(at::Tensor& values) {
    {
      const std::lock_guard lock(mutex_);
      sum_ = sum_.defined() ? sum_ + values : values.clone();
    }
    all_added_.arrive_and_wait();
    values.copy_(sum_);
    all_copied_.arrive_and_wait();
  }

 private:
  struct Forget {
    at::Tensor* sum;
    void operator()() noexcept { sum->reset(); }
  };
  std::mutex mutex_;
  at::Tensor sum_;
  std::barrier<> all_added_;
  std::barrier<Forget> all_copied_;
};

struct Result {
  at::Tensor y, d_x, d_weight, d_bias;
};

at::Tensor leaf(const at::Tensor& values) {
  return values.detach().clone().set_requires_grad(true);
}

// LibTorch's own BatchNorm of the joined batch is the reference, in float64. The parts have
// different sizes; one is empty.
TEST(SyncBatchNorm, EqualsBatchNormOfTheJoinedBatch) {
  at::manual_seed(7);
  const auto options = at::dtype(at::kDouble);
  const at::Tensor x = at::randn({6, 3, 4, 5}, options) * 3 + 40;
  const at::Tensor dy = at::randn({6, 3, 4, 5}, options);
  const at::Tensor weight = at::randn({3}, options), bias = at::randn({3}, options);

  const at::Tensor whole = leaf(x), whole_weight = leaf(weight), whole_bias = leaf(bias);
  const at::Tensor mean = at::zeros({3}, options), variance = at::ones({3}, options);
  const at::Tensor y = at::batch_norm(whole, whole_weight, whole_bias, mean, variance, true,
                                      /*momentum=*/1, kEpsilon, false);
  y.backward(dy);

  const std::vector<std::pair<int, int>> parts = {{0, 4}, {4, 6}, {6, 6}};
  std::vector<Result> results(parts.size());
  SumOverThreads board(static_cast<int>(parts.size()));
  std::vector<std::thread> ranks;
  for (std::size_t rank = 0; rank < parts.size(); ++rank)
    ranks.emplace_back([&, rank] {
      const auto [begin, end] = parts[rank];
      const at::Tensor part = leaf(x.slice(0, begin, end));
      const at::Tensor w = leaf(weight), b = leaf(bias);
      const RunningStatistics running{at::zeros({3}, options), at::ones({3}, options), 1};
      const at::Tensor out =
          batch_norm(part, {w,
                            b,
                            running,
                            kEpsilon,
                            /*uses_batch=*/true,
                            {static_cast<int>(rank), static_cast<int>(parts.size()),
                             [&board](at::Tensor& values) { board(values); }}});
      out.backward(dy.slice(0, begin, end));
      results[rank] = {out.detach(), part.grad(), w.grad(), b.grad()};
      EXPECT_TRUE(at::allclose(running.mean, mean, 1e-10, 1e-10));
      EXPECT_TRUE(at::allclose(running.variance, variance, 1e-10, 1e-10));
    });
  for (std::thread& rank : ranks) rank.join();

  std::vector<at::Tensor> outs, d_xs;
  at::Tensor d_weight = at::zeros({3}, options), d_bias = at::zeros({3}, options);
  for (const Result& result : results) {
    outs.push_back(result.y);
    d_xs.push_back(result.d_x);
    d_weight += result.d_weight;
    d_bias += result.d_bias;
  }
  EXPECT_TRUE(at::allclose(at::cat(outs), y, 1e-9, 1e-9));
  EXPECT_TRUE(at::allclose(at::cat(d_xs), whole.grad(), 1e-9, 1e-9));
  EXPECT_TRUE(at::allclose(d_weight, whole_weight.grad(), 1e-9, 1e-9));
  EXPECT_TRUE(at::allclose(d_bias, whole_bias.grad(), 1e-9, 1e-9));
}

// All images of a batch were bad: what was learned of the others stays.
TEST(SyncBatchNorm, LearnsNothingFromNothing) {
  const RunningStatistics running{at::ones({3}), at::ones({3}) * 2, 0.1};
  const BatchRanks alone{0, 1, [](at::Tensor&) {}};
  const at::Tensor x = leaf(at::zeros({0, 3, 4, 5}));
  batch_norm(x, {at::ones({3}), at::zeros({3}), running, kEpsilon, /*uses_batch=*/true, alone});
  EXPECT_TRUE(at::allclose(running.mean, at::ones({3})));
  EXPECT_TRUE(at::allclose(running.variance, at::ones({3}) * 2));
}

// Sums of bfloat16 values about 40 would be wrong by whole numbers.
TEST(SyncBatchNorm, SumsBfloat16InFloat32) {
  at::manual_seed(8);
  const at::Tensor x = (at::randn({6, 3, 8, 8}) + 40).to(at::kBFloat16);
  const at::Tensor narrow = leaf(x), wide = leaf(x.to(at::kFloat));
  BatchNorm2d norm(3), reference(3);
  norm.synchronize({.sum = [](at::Tensor&) {}});
  const at::Tensor y = norm.forward(narrow), expected = reference.forward(wide);
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(y.to(at::kFloat), expected, 1e-2, 1e-2));
  for (const auto& item : norm.named_buffers())
    EXPECT_TRUE(at::allclose(item.value(), reference.named_buffers()[item.key()], 1e-4, 1e-5))
        << item.key();
  const at::Tensor dy = at::randn({6, 3, 8, 8});
  y.backward(dy.to(at::kBFloat16));
  expected.backward(dy);
  EXPECT_EQ(narrow.grad().scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(narrow.grad().to(at::kFloat), wide.grad(), 3e-2, 3e-2));
  EXPECT_TRUE(at::allclose(norm.weight().grad(), reference.weight().grad(), 1e-2, 0.1));
}

}  // namespace
}  // namespace kiln
