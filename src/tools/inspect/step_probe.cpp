#include "tools/inspect/step_probe.h"

#include <ATen/Context.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/system.h"
#include "model/catalogue.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

constexpr int kStepsPerWait = 10;  // on a GPU, which else would idle while the next step is queued
constexpr double kLearningRate = 0.01;

// Returns the same random batch again and again.
class OneBatch : public StepContext {
 public:
  OneBatch(const StepConfig& config, ImageSize size, at::Device device)
      : batch_{random_images(config, size, device),
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
  Training(const StepConfig& config, ImageSize size, Precision precision, at::Device device)
      : state(random_model(config, device), recipe_of(precision), BucketPlan{}, *communicator),
        step(state, {.batch_size = config.batch_size, .precision = precision}),
        batch(config, size, device) {
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

at::Tensor random_images(const StepConfig& config, ImageSize size, at::Device device) {
  return at::randn({config.batch_size, 3, size.height, size.width}, device)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

std::function<void()> training_step(const StepConfig& config, ImageSize size, Precision precision,
                                    at::Device device) {
  return [training = std::make_shared<Training>(config, size, precision, device)] {
    training->step.run(training->batch, kLearningRate);
  };
}

void wait_for(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

Pace pace_of(const StepConfig& config, ImageSize size, Precision precision, at::Device device,
             const std::function<void(double)>& tell) {
  constexpr double kSeconds = 15, kStepsToCome = 3;
  constexpr int kFewest = 2, kSmall = 64;  // images, as BatchNorm needs; pixels
  const Stopwatch watch;
  const int repeats = device.is_cuda() ? kStepsPerWait : 1;
  const auto timed = [&](const std::function<void()>& step) {
    const Stopwatch one;
    for (int i = 0; i < repeats; ++i) step();
    wait_for(device);
    tell(std::min(1.0, watch.seconds() / kSeconds));
    return one.seconds() / repeats;
  };
  const auto peak_bytes = [&] {
    if (!device.is_cuda()) return static_cast<double>(peak_memory_bytes());
    return static_cast<double>(peak_device_memory({.is_cuda = true, .index = device.index()}));
  };
  const auto pixels = [](int batch_size, ImageSize of) {
    return static_cast<double>(batch_size) * static_cast<double>(of.num_pixels());
  };
  const double all_pixels = pixels(config.batch_size, size);
  at::globalContext().setBenchmarkCuDNN(true);  // as DeviceUploader does
  Pace pace{.batch_size = config.batch_size, .size = size};
  const int least = known_network(config.model_name).smallest_side();
  const int side = (std::max(kSmall, least) + least - 1) / least * least;
  const ImageSize small = {std::min(side, size.height), std::min(side, size.width)};
  const int fewest = std::min(kFewest, config.batch_size);
  if (!device.is_cuda()) pace = {.batch_size = fewest, .size = small};
  double first_pixels = 0, first_bytes = 0;
  std::function<void()> step;
  std::vector<double> seconds;
  // Steps grow while a step of the job, or a larger one than before, fits into the time.
  for (;;) {
    StepConfig measured = config;
    measured.batch_size = pace.batch_size;
    step = nullptr;  // its memory
    step = training_step(measured, pace.size, precision, device);
    timed(step);
    seconds = {timed(step)};
    const double now = pixels(pace.batch_size, pace.size);
    if (first_pixels == 0) {
      first_pixels = now;
      first_bytes = peak_bytes();
    }
    const double left = std::max(0.0, kSeconds - watch.seconds());
    const double most = now / seconds[0] * left / kStepsToCome;
    const double fitting = std::clamp(most / static_cast<double>(size.num_pixels()), 0.0, 1e6);
    Pace next{.batch_size = std::clamp(static_cast<int>(fitting), fewest, config.batch_size),
              .size = size};
    if (const double fits = std::sqrt(most / pixels(next.batch_size, size)); !(fits >= 1))
      next.size = {std::max(small.height, static_cast<int>(size.height * fits)),
                   std::max(small.width, static_cast<int>(size.width * fits))};
    const double then = pixels(next.batch_size, next.size);
    if (now >= all_pixels || (then < 1.5 * now && then < all_pixels)) break;
    pace = next;
  }
  while (static_cast<int>(seconds.size()) < config.steps &&
         watch.seconds() + seconds.back() * repeats < kSeconds)
    seconds.push_back(timed(step));
  tell(1);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  const double last_pixels = pixels(pace.batch_size, pace.size);
  pace.images_per_second = last_pixels / *middle / static_cast<double>(size.num_pixels());
  pace.memory_bytes = peak_bytes();
  if (last_pixels > first_pixels)  // what a pixel takes is known
    pace.memory_bytes += (pace.memory_bytes - first_bytes) / (last_pixels - first_pixels) *
                         (all_pixels - last_pixels);
  return pace;
}

}  // namespace kiln
