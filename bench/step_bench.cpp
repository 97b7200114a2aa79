#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>
#include <torch/cuda.h>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/platform/installation.h"
#include "base/system.h"
#include "base/text.h"
#include "kiln_bench.h"
#include "model/catalogue.h"
#include "operator_times.h"
#include "parallel/device/device.h"
#include "parallel/gradients/communicator.h"
#include "parallel/processors/processors.h"
#include "predict/predictor.h"
#include "train/precision.h"
#include "train/state.h"
#include "train/step.h"
#include "train/tensor_memory.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

struct StepConfig {
  std::string model_name;
  int batch_size = 16, size = 0, classes = 0, steps = 5;
  std::optional<Precision> precision = {};  // empty: auto
  DeviceChoice device = DeviceChoice::kAuto;
};

// Returns the same random batch again and again.
class OneBatch : public StepContext {
 public:
  explicit OneBatch(DeviceBatch batch) : batch_(std::move(batch)) {}
  std::optional<DeviceBatch> next() override { return batch_; }

 private:
  DeviceBatch batch_;
};

struct Training {
  Training(const StepConfig& config, std::unique_ptr<ImageModel> model, const Recipe& recipe,
           DeviceBatch images)
      : state(std::move(model), recipe, BucketPlan{}, *communicator),
        step(state, {.batch_size = config.batch_size, .precision = recipe.precision}),
        batch(std::move(images)) {
    state.model->train(true);
  }

  const std::unique_ptr<Communicator> communicator = make_local_communicator();
  TrainState state;
  TrainStep step;
  OneBatch batch;
};

std::unique_ptr<ImageModel> random_model(const StepConfig& config, at::Device device) {
  at::manual_seed(1);
  std::unique_ptr<ImageModel> model =
      make_image_model({.model_name = config.model_name, .num_classes = config.classes});
  model->prepare(device);
  if (environment("KILN_FUSED_NORM") == "1") model->fuse_norms();
  return model;
}

at::Tensor random_images(const StepConfig& config, at::Device device) {
  return at::randn({config.batch_size, 3, config.size, config.size}, device)
      .contiguous(at::MemoryFormat::ChannelsLast);
}

// Each call is a step of a fresh model on the same batch of images.
std::function<void()> training_step(const StepConfig& config, Precision precision,
                                    at::Device device) {
  constexpr double kLearningRate = 0.01;
  Recipe recipe;
  recipe.precision = precision;
  std::unique_ptr<ImageModel> model = random_model(config, device);
  const at::Tensor images = random_images(config, device);
  const at::Tensor labels = at::randint(config.classes, {config.batch_size},
                                        at::TensorOptions().dtype(at::kLong).device(device));
  return [training = std::make_shared<Training>(config, std::move(model), recipe,
                                                DeviceBatch{images, labels})] {
    training->step.run(training->batch, kLearningRate);
  };
}

void wait_for(at::Device device) {
  if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

struct StepFigures {
  bool is_inference = false;
  std::vector<double> seconds;  // of each step; on a GPU, the mean of it and its neighbors
  OperatorSums operators;       // of one further step
  double observed_seconds = 0;  // of that step
};

// The duration of each step, after three warm-up steps. As in training, a GPU is not waited for in
// every step but in every tenth, whose mean each of the ten gets, and cuDNN chooses its algorithms
// by measuring.
std::vector<double> seconds_of_steps(const std::function<void()>& step, int num_steps,
                                     at::Device device) {
  constexpr int kWarmUpSteps = 3, kStepsPerWait = 10;
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

StepFigures measure(const std::function<void()>& step, int num_steps, at::Device device) {
  StepFigures figures;
  figures.seconds = seconds_of_steps(step, num_steps, device);
  const OperatorTimes observed;
  const Stopwatch watch;
  step();
  wait_for(device);
  figures.observed_seconds = watch.seconds();
  figures.operators = observed.sums();
  return figures;
}

// Each call is what Predictor::logits() does with the same batch.
std::function<void()> inference_step(const StepConfig& config, Precision precision,
                                     at::Device device) {
  const std::shared_ptr<ImageModel> model = random_model(config, device);
  model->fuse();
  const at::InferenceMode inference;
  const at::Tensor images = random_images(config, device);
  return [=, logits = std::make_shared<std::optional<QueuedTensor>>()] {
    const at::InferenceMode every_time;
    logits->emplace(forward(*model, images, precision).to(at::kFloat).contiguous());
  };
}

// How many times as fast `step` is as `other`, by the clock and in processor time. Each step of one
// is followed by one of the other, so that what else the machine does meets both.
Json compare(const std::function<void()>& step, const std::function<void()>& other, int num_steps,
             at::Device device) {
  constexpr int kWarmUpSteps = 2;
  const auto timed = [device](const std::function<void()>& work) {
    const double processors_before = processor_seconds();
    const Stopwatch watch;
    work();
    wait_for(device);
    return std::pair(watch.seconds(), processor_seconds() - processors_before);
  };
  std::vector<double> seconds, other_seconds, ratios, processor_ratios;
  for (int i = 0; i < num_steps + kWarmUpSteps; ++i) {
    const auto [here, processors_here] = timed(step);
    const auto [there, processors_there] = timed(other);
    if (i < kWarmUpSteps) continue;
    seconds.push_back(here);
    other_seconds.push_back(there);
    ratios.push_back(there / here);
    processor_ratios.push_back(processors_there / processors_here);
  }
  const Spread times = spread_of(ratios);
  return {{"seconds_per_step", spread_of(seconds).median},
          {"other_seconds_per_step", spread_of(other_seconds).median},
          {"times_as_fast", times.median},
          {"times_as_fast_least", times.least},
          {"times_as_fast_most", times.most},
          {"times_as_fast_by_processor", spread_of(processor_ratios).median}};
}

// The fastest of a few runs, after one for warm-up: what the machine is capable of.
template <typename Work>
double least_seconds(at::Device device, const Work& work) {
  constexpr int kRepeats = 5;
  double least = 0;
  for (int i = 0; i <= kRepeats; ++i) {
    const Stopwatch watch;
    work();
    wait_for(device);
    if (i > 0) least = i == 1 ? watch.seconds() : std::min(least, watch.seconds());
  }
  return least;
}

struct MachineLimits {
  double flops_per_second;  // multiplying large matrices in the step's precision
  double bytes_per_second;  // read and written, copying more than any cache holds
};

MachineLimits measure_limits(Precision precision, at::Device device) {
  const std::int64_t side = device.is_cuda() ? 8192 : 2048;
  const at::TensorOptions options = at::TensorOptions(device).dtype(type_of(precision));
  const at::Tensor a = at::randn({side, side}, options), b = at::randn({side, side}, options);
  at::Tensor product = at::empty({side, side}, a.options());
  const double seconds = least_seconds(device, [&] { at::mm_out(product, a, b); });
  const at::Tensor from = at::ones({64 << 20}, options);
  at::Tensor to = at::empty_like(from);
  const double copy_seconds = least_seconds(device, [&] { to.copy_(from); });
  return {2.0 * static_cast<double>(side * side * side) / seconds,
          2.0 * static_cast<double>(from.nbytes()) / copy_seconds};
}

Json shares(const StepFigures& figures) {
  Json json = Json::object();
  double rest = figures.observed_seconds;
  for (const OperatorSums::Kind& kind : figures.operators.kinds) {
    json[kind.name] = kind.seconds / figures.observed_seconds;
    rest -= kind.seconds;
  }
  json["other"] = rest / figures.observed_seconds;
  return json;
}

Json to_json(const StepConfig& config, const Device& device, bool is_inference) {
  return {{"version", program_version()},
          {"device", device.description},
          {"threads", at::get_num_threads()},
          {"model_name", config.model_name},
          {"image_size", config.size},
          {"batch_size", config.batch_size},
          {"classes", config.classes},
          {"inference", is_inference},
          {"steps", config.steps}};
}

Json to_json(const StepConfig& config, const Device& device, const StepFigures& figures,
             const MachineLimits& limits) {
  const Spread seconds = spread_of(figures.seconds);
  const int passes = figures.is_inference ? 1 : 3;  // backward: twice the forward pass
  const double flops = passes * figures.operators.forward_flops;
  Json json = to_json(config, device, figures.is_inference);
  json.update({{"images_per_second", config.batch_size / seconds.median},
               {"images_per_second_least", config.batch_size / seconds.most},
               {"images_per_second_most", config.batch_size / seconds.least},
               {"seconds_per_step", seconds.median},
               {"gigaflops_per_step", flops / 1e9},
               {"machine_gigaflops_per_second", limits.flops_per_second / 1e9},
               {"machine_gigabytes_per_second", limits.bytes_per_second / 1e9},
               {"share_of_machine_flops", flops / seconds.median / limits.flops_per_second},
               {"peak_memory_bytes", peak_memory_bytes()}});
  if (device.is_cuda) return json;  // only the forward pass was observed
  json["gigabytes_per_step"] = figures.operators.bytes / 1e9;
  json["share_of_machine_bytes"] =
      figures.operators.bytes / seconds.median / limits.bytes_per_second;
  json["share_of_step"] = shares(figures);
  return json;
}

// Takes an option that is a precision; empty: auto.
std::optional<Precision> take_precision(Words& words, const std::string& option) {
  const std::string name = words.take(option, "fp32");
  const std::optional<Precision> precision = value_named<Precision>(kPrecisionNames, name);
  if (precision || name == "auto") return precision;
  throw Error(ErrorCode::kUserError,
              "--" + option + " is '" + name + "', but must be fp32, tf32, fp16, bf16 or auto.");
}

}  // namespace

void bench_step(Words& words, Process& process) {
  const bool is_inference = words.take_flag("inference");
  const int least_images = is_inference ? 1 : 2;  // BatchNorm in training needs two
  const StepConfig config{.model_name = words.take("model-name", "resnet18"),
                          .batch_size = words.take_number("batch-size", 64, least_images),
                          .size = words.take_number("size", 224),
                          .classes = words.take_number("classes", 1000, 2),
                          .steps = words.take_number("steps", 20),
                          .precision = take_precision(words, "precision"),
                          .device = words.take_device()};
  const int threads = words.take_number("threads", usable_cpus());
  const bool is_compared = words.has("against");
  const std::optional<Precision> against = take_precision(words, "against");
  words.finish();
  if (find_network(config.model_name) == nullptr)
    throw Error(ErrorCode::kUserError, "--model-name is '" + config.model_name +
                                           "', but must be one of " +
                                           join_choices(network_names()) + ".");
  const Device device = choose_device(config.device);
  use_compute_threads(threads);
  keep_freed_memory();
  keep_tensor_memory();
  const auto step_in = [&](std::optional<Precision> asked, Precision& used) {
    const PrecisionChoice choice =
        choose_precision(asked, units_of(device), is_inference ? 0 : config.size);
    if (!choice.warning.empty()) process.log.warning(choice.warning);
    use_precision(used = choice.precision);
    return is_inference ? inference_step(config, used, torch_device(device))
                        : training_step(config, used, torch_device(device));
  };
  Precision precision{}, other{};
  const std::function<void()> step = step_in(config.precision, precision);
  Json json;
  if (is_compared) {
    json = to_json(config, device, is_inference);
    json.update(compare(step, step_in(against, other), config.steps, torch_device(device)));
    json["against"] = precision_name(other);
  } else {
    StepFigures figures = measure(step, config.steps, torch_device(device));
    figures.is_inference = is_inference;
    json = to_json(config, device, figures, measure_limits(precision, torch_device(device)));
  }
  json["precision"] = precision_name(precision);
  std::printf("%s\n", json.dump(2).c_str());
}

}  // namespace kiln
