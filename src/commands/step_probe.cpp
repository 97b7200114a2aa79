#include "commands/step_probe.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <torch/cuda.h>

#include <memory>
#include <optional>

#include "base/system.h"
#include "parallel/gradients/communicator.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

constexpr int kWarmUpSteps = 3;
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
  const auto seconds_of_step = [&] {
    const Stopwatch watch;
    step();
    wait_for(device);
    return watch.seconds();
  };
  for (int i = 0; i < kWarmUpSteps; ++i) seconds_of_step();
  StepFigures figures;
  for (int i = 0; i < config.steps; ++i) figures.seconds.push_back(seconds_of_step());
  const OperatorTimes observed;
  figures.observed_seconds = seconds_of_step();
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
  return measure_each(config, device, [&] {
    return forward(*model, images, precision).to(at::kFloat).cpu().contiguous();
  });
}

}  // namespace kiln
