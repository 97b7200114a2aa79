// A model that has no memory for a while, and an end while requests are read.
#include "tools/serve/batcher.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <new>
#include <thread>

#include "data/scratch_folder.h"
#include "model/image_model.h"
#include "model/weights/starting_weights.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

class NoMemory : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t) override { throw std::bad_alloc(); }
  void copy_data(void*, const void*, std::size_t) const override {}
};

class BatcherTest : public testing::Test {
 protected:
  BatcherTest() {
    constexpr int kClasses = 2;
    const ModelSpec spec{.model_name = "resnet18", .num_classes = kClasses, .normalization = {}};
    const auto network = make_image_model({.model_name = spec.model_name, .num_classes = kClasses});
    write_directory(
        OutputFolder(folder_.path()),
        trained_model_files(
            {.spec = spec,
             .state = to_state_dict(*network),
             .labels = {"cat", "dog"},
             .preprocessing = {.height = 32, .width = 32, .normalization = kImagenetNormalization},
             .calibration = {},
             .schema_json = "{}",
             .samples_json = "{}",
             .training_json = "{}"}));
    model_ = std::make_shared<ServedModel>(folder_.path(), job_, config_);
  }

  static EncodedImage photo() {
    const auto file = std::make_shared<const std::string>(
        encode_png({{4, 4}, std::vector<std::uint8_t>(std::size_t{4} * 4 * 3)}));
    return {file, *file};
  }

  static PredictionConfig on_one_thread() {
    PredictionConfig config;
    config.batch_size = config.threads = config.loader_threads = 1;
    config.device = DeviceChoice::kCpu;
    return config;
  }

  static ServeConfig one_at_a_time() {
    ServeConfig config;
    config.max_queue = 1;
    return config;
  }

  Log log_;
  const ServeConfig config_ = one_at_a_time();
  const PredictionJob job_{on_one_thread(), log_};
  const ScratchFolder folder_;
  std::shared_ptr<ServedModel> model_;
  ServerMetrics metrics_;
};

TEST_F(BatcherTest, TellsThatTheModelFailsUntilItAnswers) {
  Batcher batcher(config_, job_, metrics_);
  const auto num_answers = [&] {
    std::promise<std::size_t> told;
    batcher.ask(model_, {photo()},
                [&](const std::vector<ServedAnswer>& answers) { told.set_value(answers.size()); });
    return told.get_future().get();
  };
  EXPECT_EQ(num_answers(), 1U);
  NoMemory none;
  c10::Allocator* const usual = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&none);
  EXPECT_EQ(num_answers(), 0U);
  EXPECT_FALSE(model_->is_failing());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(num_answers(), 0U);
  EXPECT_TRUE(model_->is_failing());
  c10::SetCPUAllocator(usual);
  EXPECT_EQ(num_answers(), 1U);
  EXPECT_FALSE(model_->is_failing());
}

TEST_F(BatcherTest, EndsWhileARequestIsRead) {
  std::promise<void> begun;
  Batcher batcher(config_, job_, metrics_);
  batcher.run([&] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    batcher.ask(model_, {photo()}, [](const std::vector<ServedAnswer>&) {});
  });
  begun.get_future().wait();
}

}  // namespace
}  // namespace kiln
