#include "tools/inspect/step_probe.h"

#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/cuda.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/system.h"
#include "parallel/gradients/communicator.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr int kStepsPerWait = 10;  // on a GPU, which else would idle while the next step is queued
constexpr double kLearningRate = 0.01;

// Returns the same random batch again and again.
class OneBatch : public StepContext {
 public:
  OneBatch(const StepConfig& config, at::Device device)
      : batch_{random_images(config, device),
               at::randint(config.classes, {config.batch_size},
                           at::TensorOptions().dtype(at::kLong).device(device))} {}
  std::optional<DeviceBatch> next() override { return batch_; }

 private:
  DeviceBatch batch_;
};

Recipe recipe_of(Precision precision) {
  Recipe recipe;
  recipe.precision = precision;
  return recipe;
}

struct Training {
  Training(const StepConfig& config, Precision precision, at::Device device)
      : state(random_model(config, device), recipe_of(precision), BucketPlan{}, *communicator),
        step(state, {.batch_size = config.batch_size, .precision = precision}),
        batch(config, device) {
    state.model->train(true);
  }

  const std::unique_ptr<Communicator> communicator = make_local_communicator();
  TrainState state;
  TrainStep step;
  OneBatch batch;
};

}  // namespace

std::unique_ptr<ImageModel> random_model(const StepConfig& config, at::Device device) {
  at::manual_seed(1);
  std::unique_ptr<ImageModel> model =
      make_image_model({.model_name = config.model_name, .num_classes = config.classes});
  model->prepare(device);
  return model;
}

at::Tensor random_images(const StepConfig& config, at::Device device) {
  return at::randn({config.batch_size, 3, config.size, config.size}, device)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

std::function<void()> training_step(const StepConfig& config, Precision precision,
                                    at::Device device) {
  return [training = std::make_shared<Training>(config, precision, device)] {
    training->step.run(training->batch, kLearningRate);
  };
}

std::vector<double> seconds_of_steps(const std::function<void()>& step, int num_steps,
                                     at::Device device) {
  at::globalContext().setBenchmarkCuDNN(true);  // as DeviceUploader does
  const auto mean_seconds = [&](int count) {
    const Stopwatch watch;
    for (int i = 0; i < count; ++i) step();
    wait_for(device);
    return watch.seconds() / count;
  };
  mean_seconds(kWarmUpSteps);
  std::vector<double> seconds;
  while (static_cast<int>(seconds.size()) < num_steps) {
    const int left = num_steps - static_cast<int>(seconds.size());
    const int together = device.is_cuda() ? std::min(kStepsPerWait, left) : 1;
    seconds.insert(seconds.end(), static_cast<std::size_t>(together), mean_seconds(together));
  }
  return seconds;
}

void wait_for(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

}  // namespace kiln
