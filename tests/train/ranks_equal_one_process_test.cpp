// Run by mpirun with 2, 3 or 4 ranks: what they train and measure together against what rank 0
// trains and measures alone from the same start, in the same order.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/random.h"
#include "data/loader/sampler.h"
#include "data/make_image.h"
#include "parallel/gradients/communicator.h"
#include "parallel/rank_main.h"
#include "parallel/ranks/world.h"
#include "train/epoch.h"
#include "train/evaluation.h"
#include "train/optimizer/optimizer.h"
#include "train/state.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

World* world = nullptr;
constexpr int kGlobalBatch = 12, kSteps = 4, kSide = 16;
constexpr int kImages = kGlobalBatch * kSteps + 5;  // the last 5 are dropped
constexpr Normalization kScaling = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};

// In float64, so that rounding, which training amplifies step by step, does not hide a fault. With
// frozen statistics a BatchNorm does not depend on which images share its batch.
class TestModel : public ImageModel {
 public:
  explicit TestModel(bool frozen_statistics, const std::string& name = "resnet18")
      : frozen_(frozen_statistics) {
    at::manual_seed(11);
    model_ = make_image_model({.model_name = name, .num_classes = 3});
    model_->prepare(at::kCPU);
    model_->to_float64();
  }
  at::Tensor class_maps(const at::Tensor&, const std::vector<int>&) override { return {}; }
  void train(bool on) override { model_->train(on && !frozen_); }
  void key_images(std::vector<std::uint64_t> keys) override { model_->key_images(std::move(keys)); }
  at::Tensor pooled_features(const at::Tensor& images) override {
    return model_->pooled_features(images.to(at::kDouble));
  }
  at::Tensor logits_of(const at::Tensor& features) override { return model_->logits_of(features); }
  void freeze(Freeze what) override { model_->freeze(what); }
  std::vector<int> stages() const override { return model_->stages(); }
  std::vector<NamedTensor> head() const override { return model_->head(); }
  std::vector<at::Tensor> parameters() const override { return model_->parameters(); }
  std::vector<NamedTensor> named_parameters() const override { return model_->named_parameters(); }
  std::vector<NamedTensor> state() const override { return model_->state(); }
  void prepare(const at::Device& device) override { model_->prepare(device); }
  void to_float64() override {}
  void fold_batch_norm() override {}
  Kept kept() const override { return {}; }
  void synchronize_batch_norm(const BatchRanks& ranks) override {
    model_->synchronize_batch_norm(ranks);
  }

 private:
  std::unique_ptr<ImageModel> model_;
  bool frozen_;
};

struct Outcome {
  double first_loss = 0, loss = 0;
  std::vector<at::Tensor> state;
};

class Ranks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string folder = (fs::temp_directory_path() / "kiln-ranks-XXXXXX").string();
    if (world->leads()) folder = ::mkdtemp(folder.data());
    folder_ = world->broadcast(folder);
    if (world->leads()) draw();
    world->barrier();
    set_.root = folder_;
    for (int i = 0; i < kImages; ++i)
      set_.samples.push_back(
          {.file_name = std::to_string(i) + ".png", .label = i % 3, .id = i, .size = {}});
  }
  static void TearDownTestSuite() {
    world->barrier();
    if (world->leads()) fs::remove_all(folder_);
    set_ = {};
  }

  static void draw() {
    for (int i = 0; i < kImages; ++i) {
      Image image = test::gradient(kSide, kSide);
      for (std::size_t at = static_cast<std::size_t>(i % 3); at < image.pixels.size(); at += 3)
        image.pixels[at] = static_cast<std::uint8_t>(i * 37 + at);
      std::ofstream(folder_ / (std::to_string(i) + ".png"), std::ios::binary)
          << test::encode_png(image);
    }
  }

  static std::unique_ptr<BatchLoader> loader(std::vector<std::uint32_t> order, int batch_size) {
    static LoaderThreads pool({.num_decoders = 1});
    return load_batches(set_, pool,
                        {.order = std::move(order),
                         .batch_size = batch_size,
                         .pixels = {.output = {kSide, kSide}},
                         .scaling = kScaling,
                         .num_slots = 3});
  }

  // One epoch of kSteps steps as this share of the work.
  static Outcome train(const Shard& share, Communicator& communicator, bool synchronized,
                       const std::string& name) {
    auto model = std::make_unique<TestModel>(/*frozen_statistics=*/!synchronized, name);
    const auto lane = communicator.second_lane("BatchNorm all-reduce");
    if (synchronized && communicator.size() > 1)
      model->synchronize_batch_norm({share.rank, share.num_ranks, [&lane](at::Tensor& sums) {
                                       lane->wait(lane->all_reduce(sums));
                                     }});
    TrainState state(std::move(model), {}, {.first_bytes = 1 << 16, .bytes = 4 << 20},
                     communicator);
    DeviceUploader uploader(at::kCPU, {kSide, kSide}, share.batch_size, kScaling);
    const auto order = permutation(kImages, {1, 1});
    const std::unique_ptr<BatchLoader> batches =
        loader(training_indices(order, share), share.batch_size);
    TrainEpoch epoch(
        state, *batches, uploader,
        {.schedule = {.peak = 0.02, .steps_per_epoch = kSteps},
         .step = {.batch_size = share.batch_size, .batches_per_step = share.batches_per_step},
         .rank = share.rank,
         .num_ranks = share.num_ranks});
    Outcome outcome;
    while (epoch.step())
      if (epoch.steps_done() == 1) outcome.first_loss = epoch.printed_step().record.so_far.loss_sum;
    EXPECT_EQ(epoch.steps_done(), kSteps);
    outcome.loss = epoch.finish().train.loss_sum;
    for (const NamedTensor& item : state.model->state())
      outcome.state.push_back(item.tensor.detach().clone());
    return outcome;
  }

  static void expect_equal_to_one_process(bool synchronized, int batches_per_step,
                                          const std::string& name = "resnet18",
                                          double rounding = 1e-8) {
    const auto communicator = make_mpi_communicator(*world->mpi());
    const int batch = kGlobalBatch / world->size() / batches_per_step;
    Outcome ours = train({world->rank(), world->size(), batch, batches_per_step}, *communicator,
                         synchronized, name);
    const std::vector<double> losses = world->sum({ours.first_loss, ours.loss});
    if (world->leads()) {
      const Outcome alone =
          train({0, 1, kGlobalBatch, 1}, *make_local_communicator(), synchronized, name);
      EXPECT_NEAR(losses[0], alone.first_loss, 1e-8 * alone.first_loss);
      EXPECT_NEAR(losses[1], alone.loss, rounding * alone.loss);
      for (std::size_t i = 0; i < alone.state.size(); ++i)
        EXPECT_TRUE(at::allclose(ours.state[i], alone.state[i], 10 * rounding, rounding))
            << i << ": " << (ours.state[i] - alone.state[i]).abs().max();
    }
    world->barrier();
  }

  static fs::path folder_;
  static Dataset set_;
};

fs::path Ranks::folder_;
Dataset Ranks::set_;

TEST_F(Ranks, TrainWhatOneProcessTrains) {
  expect_equal_to_one_process(/*synchronized=*/false, 1);
}

TEST_F(Ranks, TrainWhatOneProcessTrainsWithAccumulatedGradients) {
  if (kGlobalBatch / world->size() % 3 != 0) GTEST_SKIP() << "a batch does not fall into three";
  expect_equal_to_one_process(/*synchronized=*/false, 3);
}

TEST_F(Ranks, TrainWhatOneProcessTrainsWithSynchronizedBatchNorm) {
  expect_equal_to_one_process(/*synchronized=*/true, 1);
}

// With stochastic depth and dropout; so many BatchNorms over so few values amplify rounding.
TEST_F(Ranks, DropWhatOneProcessDrops) {
  expect_equal_to_one_process(/*synchronized=*/true, 1, "efficientnet_b0", 1e-5);
}

TEST_F(Ranks, EvaluateEveryImageOnce) {
  const auto model = std::make_unique<TestModel>(false);
  DeviceUploader uploader(at::kCPU, {kSide, kSide}, 7, kScaling);
  const auto measured = [&](const Shard& share) {
    const std::unique_ptr<BatchLoader> batches = loader(validation_indices(kImages, share), 7);
    Evaluator evaluator(*model, *batches, uploader, Precision::kFp32, CalibrationSample{});
    while (evaluator.step()) continue;
    return evaluator.totals();
  };
  const Totals mine = measured({world->rank(), world->size(), 7});
  const Totals whole = measured({0, 1, 7});
  const auto sums = world->sum({mine.loss_sum, static_cast<double>(mine.top1),
                                static_cast<double>(mine.top5), static_cast<double>(mine.count)});
  EXPECT_NEAR(sums[0], whole.loss_sum, 1e-6 * whole.loss_sum);
  EXPECT_EQ(sums[1], static_cast<double>(whole.top1));
  EXPECT_EQ(sums[2], static_cast<double>(whole.top5));
  EXPECT_EQ(sums[3], kImages);
}

TEST_F(Ranks, FitTheTemperatureOfOneProcess) {
  const auto model = std::make_unique<TestModel>(false);
  DeviceUploader uploader(at::kCPU, {kSide, kSide}, 7, kScaling);
  const auto logits_of = [&](const Shard& share, const CalibrationSample& sample) {
    const std::unique_ptr<BatchLoader> batches = loader(validation_indices(kImages, share), 7);
    Evaluator evaluator(*model, *batches, uploader, Precision::kFp32, sample);
    while (evaluator.step()) continue;
    return evaluator.take_logits();
  };
  const Shard mine = {world->rank(), world->size(), 7}, all = {0, 1, 7};
  const HostLogits part = logits_of(mine, {}), whole = logits_of(all, {});
  EXPECT_EQ(whole.labels.size(), static_cast<std::size_t>(kImages));
  EXPECT_EQ(whole.view().logits.size(), whole.labels.size() * whole.view().num_classes);
  const auto sum = [](const std::array<double, 3>& numbers) {
    const std::vector<double> sums = world->sum({numbers[0], numbers[1], numbers[2]});
    return std::array<double, 3>{sums[0], sums[1], sums[2]};
  };
  const double fitted = fit_temperature(part.view(), sum);
  EXPECT_NEAR(fitted, fit_temperature(whole.view()), 1e-4 * fitted);
  for (const double other : world->gather(fitted)) EXPECT_EQ(other, fitted);
  // A sample has some of the rows, whichever rank evaluates them.
  const CalibrationSample half(std::uint64_t{1} << 25, 1);
  const HostLogits some = logits_of(all, half);
  EXPECT_GT(some.labels.size(), 0U);
  EXPECT_LT(some.labels.size(), whole.labels.size());
  EXPECT_EQ(some.view().logits.size(), some.labels.size() * some.view().num_classes);
  const auto of_ranks = world->sum({static_cast<double>(logits_of(mine, half).labels.size())});
  EXPECT_EQ(of_ranks[0], static_cast<double>(some.labels.size()));
}

TEST_F(Ranks, ADifferentBitInOneReplicaIsFoundAndNamed) {
  const auto model = std::make_unique<TestModel>(false);
  EXPECT_NO_THROW(require_equal_replicas(*model, *world));
  if (world->rank() == world->size() - 1) {
    const at::NoGradGuard no_grad;
    model->state()[3].tensor.view({-1})[0] += 1e-6;
  }
  try {
    require_equal_replicas(*model, *world);
    ADD_FAILURE() << "nothing was found";
  } catch (const std::exception& failure) {  // FailedElsewhere on all ranks but the first
    const std::string text = failure.what();
    EXPECT_NE(text.find("'" + model->state()[3].name + "'"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(world->size() - 1)), std::string::npos) << text;
  }
}

// As after a fault of its GPU: the others do not wait for its part.
TEST_F(Ranks, ATensorThatOneRankCannotReadIsItsFailure) {
  class LostModel : public TestModel {
   public:
    using TestModel::TestModel;
    std::vector<NamedTensor> state() const override { return {{"lost", at::Tensor()}}; }
  };
  const bool is_guilty = world->rank() == world->size() - 1;
  const TestModel whole(false);
  const LostModel lost(false);
  const ImageModel& model = is_guilty ? lost : whole;
  try {
    require_equal_replicas(model, *world);
    ADD_FAILURE() << "nothing was found";
  } catch (const FailedElsewhere&) {
    EXPECT_FALSE(is_guilty);
  } catch (const std::exception&) {
    EXPECT_TRUE(is_guilty);
  }
}

TEST_F(Ranks, AnOverflowOnOneIsOneOnAll) {
  const auto communicator = make_mpi_communicator(*world->mpi());
  const at::Tensor weight = at::ones({40}).requires_grad_();
  GradientBuckets buckets({weight}, {}, *communicator);
  LossScaler scaler(at::kCPU);
  for (const bool overflows : {true, false}) {
    buckets.reduce_on_next_backward();
    const bool here = overflows && world->rank() == world->size() - 1;
    (weight.sum() * (here ? std::numeric_limits<double>::infinity() : 65536.0)).backward();
    buckets.wait();
    EXPECT_EQ(scaler.unscale(buckets.flat()).item<float>(), overflows ? 1 : 0);
    buckets.clear();
  }
  EXPECT_EQ(scaler.values().scale, 32768);
  EXPECT_EQ(scaler.values().skipped_steps, 1);
}

TEST_F(Ranks, StartFromRank0sStateAndAverageStatistics) {
  const auto communicator = make_mpi_communicator(*world->mpi());
  at::manual_seed(static_cast<std::uint64_t>(world->rank()));
  const auto model = make_image_model({.model_name = "resnet18", .num_classes = 3});
  broadcast_tensors(model->state(), *communicator);
  EXPECT_NO_THROW(require_equal_replicas(*model, *world));
  for (const NamedTensor& item : model->state())
    if (item.name.ends_with("running_mean") || item.name.ends_with("num_batches_tracked"))
      item.tensor.fill_(world->rank());
  average_statistics(model->state(), *communicator, *world, world->size());
  for (const NamedTensor& item : model->state()) {
    if (item.name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(item.tensor.item<std::int64_t>(), world->size() - 1);
    }
    if (!item.name.ends_with("running_mean")) continue;
    EXPECT_FLOAT_EQ(item.tensor[0].item<float>(), static_cast<float>(world->size() - 1) / 2);
  }
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  at::set_num_threads(1);
  kiln::Log log;
  kiln::World the_world;
  if (!kiln::join_ranks(argc, argv, 120, log, the_world)) return 2;
  kiln::world = &the_world;
  return the_world.leave(RUN_ALL_TESTS());
}
