#include "tools/inspect/step_probe.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <torch/cuda.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "base/system.h"
#include "parallel/gradients/communicator.h"
#include "predict/predictor.h"
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
  OneBatch(const BenchStepConfig& config, at::Device device)
      : batch_{at::randn({config.batch_size, 3, config.size, config.size}, device)
                   .contiguous(at::MemoryFormat::ChannelsLast),
               at::randint(config.classes, {config.batch_size},
                           at::TensorOptions().dtype(at::kLong).device(device))} {}
  std::optional<DeviceBatch> next() override { return batch_; }

 private:
  DeviceBatch batch_;
};

template <typename Step>
StepFigures measure_each(const BenchStepConfig& config, at::Device device, const Step& step) {
  at::globalContext().setBenchmarkCuDNN(true);  // as DeviceUploader does
  const auto seconds_of = [&](int num_steps) {
    const Stopwatch watch;
    for (int i = 0; i < num_steps; ++i) step();
    wait_for(device);
    return watch.seconds() / num_steps;
  };
  seconds_of(kWarmUpSteps);
  StepFigures figures;
  while (static_cast<int>(figures.seconds.size()) < config.steps) {
    const int left = config.steps - static_cast<int>(figures.seconds.size());
    const int together = device.is_cuda() ? std::min(kStepsPerWait, left) : 1;
    figures.seconds.insert(figures.seconds.end(), static_cast<std::size_t>(together),
                           seconds_of(together));
  }
  const OperatorTimes observed;
  figures.observed_seconds = seconds_of(1);
  figures.operators = observed.sums();
  return figures;
}

std::unique_ptr<ImageModel> fresh_model(const BenchStepConfig& config, at::Device device) {
  at::manual_seed(1);
  std::unique_ptr<ImageModel> model =
      make_image_model({.model_name = config.model_name, .num_classes = config.classes});
  model->prepare(device);
  return model;
}

}  // namespace

void wait_for(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

StepFigures measure_training(const BenchStepConfig& config, Precision precision,
                             at::Device device) {
  std::unique_ptr<ImageModel> model = fresh_model(config, device);
  model->train(true);
  const std::unique_ptr<Communicator> communicator = make_local_communicator();
  Recipe recipe;
  recipe.precision = precision;
  TrainState state(std::move(model), recipe, BucketPlan{}, *communicator);
  TrainStep step(state, {.batch_size = config.batch_size, .precision = precision});
  OneBatch batch(config, device);
  return measure_each(config, device, [&] { step.run(batch, kLearningRate); });
}

StepFigures measure_inference(const BenchStepConfig& config, Precision precision,
                              at::Device device) {
  const std::unique_ptr<ImageModel> model = fresh_model(config, device);
  model->fold_batch_norm();
  const at::InferenceMode inference;
  const at::Tensor images = OneBatch(config, device).next()->images;
  std::optional<QueuedTensor> logits;
  return measure_each(config, device, [&] {
    logits.emplace(forward(*model, images, precision).to(at::kFloat).contiguous());
  });
}

}  // namespace kiln
