#include "parallel/gradients/gradient_buckets.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <numeric>

#include "parallel/thread_ranks.h"

namespace kiln {
namespace {

// Odd lengths, a single value, and a 4-D tensor in channels_last.
std::vector<at::Tensor> some_parameters() {
  const auto wave = [](at::IntArrayRef shape) {
    return at::arange(c10::multiply_integers(shape), at::kFloat).sin().view(shape);
  };
  std::vector<at::Tensor> parameters = {
      wave({7, 3}), wave({1}) + 1, wave({33}),
      wave({4, 3, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast), wave({129})};
  for (at::Tensor& parameter : parameters) parameter.set_requires_grad(true);
  return parameters;
}

// A loss with a known gradient: rank r's is (r + 1) times the parameter.
void backward(const std::vector<at::Tensor>& parameters, int rank) {
  at::Tensor loss = at::zeros({});
  for (const at::Tensor& parameter : parameters)
    loss = loss + 0.5 * (rank + 1) * parameter.square().sum();
  loss.backward();
}

constexpr BucketPlan kSmallBuckets{.first_bytes = 64, .bytes = 256};

class GradientBucketsOverRanks : public testing::TestWithParam<int> {};

TEST_P(GradientBucketsOverRanks, SumTheGradientsOfAllRanksStepAfterStep) {
  const int size = GetParam();
  run_ranks(size, [&](int rank, Communicator& communicator) {
    const auto parameters = some_parameters();
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    for (int step = 0; step < 3; ++step) {
      buckets.reduce_on_next_backward();
      backward(parameters, rank);
      buckets.wait();
      const int factor = size * (size + 1) / 2;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(at::allclose(buckets.gradients()[i], factor * parameters[i], 1e-6, 1e-6)) << i;
        EXPECT_EQ(buckets.gradients()[i].strides(), parameters[i].strides());
      }
      buckets.clear();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, GradientBucketsOverRanks, testing::Values(2, 3, 4));

TEST(GradientBuckets, HoldEveryParameterInReverseOrderOfCreation) {
  run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
    const auto parameters = some_parameters();
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    buckets.reduce_on_next_backward();
    backward(parameters, rank);
    const auto sent_by_backward = communicator.lengths();
    buckets.wait();
    EXPECT_GT(buckets.flat().size(), 2U);
    EXPECT_EQ(communicator.lengths().size(), buckets.flat().size());
    EXPECT_EQ(sent_by_backward.size(), buckets.flat().size());  // nothing was left for wait()
    EXPECT_EQ(communicator.lengths().front(), 129);  // the last one's values, a bucket of its own
  });
}

TEST(GradientBuckets, TheOutputLayersBiasTravelsWithItsWeight) {
  run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
    std::vector<at::Tensor> parameters = {at::ones({160}), at::ones({160}), at::ones({4})};
    for (at::Tensor& parameter : parameters) parameter.set_requires_grad(true);
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    buckets.reduce_on_next_backward();
    backward(parameters, rank);
    buckets.wait();
    EXPECT_EQ(communicator.lengths(), (std::vector<std::int64_t>{16 + 160, 160}));
  });
}

TEST(GradientBuckets, ALargeGradientTravelsAlone) {
  run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
    std::vector<at::Tensor> parameters = {at::ones({3}), at::ones({1 << 18}), at::ones({5}),
                                          at::ones({6})};
    for (at::Tensor& parameter : parameters) parameter.set_requires_grad(true);
    GradientBuckets buckets(parameters, {}, communicator);
    for (int step = 0; step < 2; ++step) {
      buckets.reduce_on_next_backward();
      backward(parameters, rank);
      buckets.wait();
      for (std::size_t i = 0; i < parameters.size(); ++i)
        EXPECT_TRUE(at::equal(buckets.gradients()[i], 3 * parameters[i])) << i;
      buckets.clear();
    }
    EXPECT_EQ(communicator.lengths(), (std::vector<std::int64_t>{32, 1 << 18, 3, 32, 1 << 18, 3}));
  });
}

TEST(GradientBuckets, SumsWaitForTheEndWhereTheyOnlyTakeProcessors) {
  run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
    communicator.sum_after_backward();
    const auto parameters = some_parameters();
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    buckets.reduce_on_next_backward();
    backward(parameters, rank);
    EXPECT_TRUE(communicator.lengths().empty());
    buckets.wait();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::allclose(buckets.gradients()[i], 3 * parameters[i]));
  });
}

TEST(GradientBuckets, ARankWithoutImagesGetsTheOthersGradients) {
  run_ranks(2, [](int rank, Communicator& communicator) {
    const auto parameters = some_parameters();
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    buckets.reduce_on_next_backward();
    if (rank == 1) backward(parameters, rank);
    buckets.wait();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::allclose(buckets.gradients()[i], 2 * parameters[i]));
  });
}

TEST(GradientBuckets, OnlyTheLastBackwardOfAStepIsSent) {
  run_ranks(2, [](int rank, ThreadCommunicator& communicator) {
    const auto parameters = some_parameters();
    GradientBuckets buckets(parameters, kSmallBuckets, communicator);
    backward(parameters, rank);
    EXPECT_TRUE(communicator.lengths().empty());
    buckets.reduce_on_next_backward();
    backward(parameters, rank);
    buckets.wait();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(at::allclose(buckets.gradients()[i], 6 * parameters[i]));
  });
}

TEST(GradientBuckets, OneRankTakesOverWhatBackwardMade) {
  auto parameters = some_parameters();
  parameters.push_back(at::ones({5}).requires_grad_());  // which no loss depends on
  const auto communicator = make_local_communicator();
  GradientBuckets buckets(parameters, {}, *communicator);
  const std::vector<at::Tensor> gradients = buckets.gradients();
  const std::vector<at::Tensor> reached(parameters.begin(), parameters.end() - 1);
  for (const int passes : {1, 2, 1}) {
    for (int pass = 0; pass < passes; ++pass) {
      buckets.reduce_on_next_backward();
      backward(reached, 0);
    }
    buckets.wait();
    for (std::size_t i = 0; i < reached.size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[i], passes * reached[i])) << i;
      EXPECT_EQ(gradients[i].strides(), reached[i].strides()) << i;
      EXPECT_FALSE(reached[i].grad().defined()) << i;
    }
    EXPECT_TRUE(at::equal(gradients.back(), at::zeros({5})));
    buckets.clear();
  }
}

}  // namespace
}  // namespace kiln
