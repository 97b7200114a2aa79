// Trains a Kiln network on what tests/parity/train_parity.py wrote, with the recipe and the steps
// of `kiln train`, and writes what came out.
//
//   kiln_train_tool MODEL PRECISION IN.safetensors OUT.safetensors
//
// PRECISION: fp64, or one of --precision. IN, in float64 (float32 for the latter) but for the
// labels and the schedule: the state dict, `images` [steps, N, 3, H, W], `labels` [steps, N], and
// `schedule` [2], warm-up epochs and peak; optionally `class_weights` [classes]. A step is an epoch
// of the schedule; and `recipe` [7] and `rates` [steps], in place of the schedule: the place of the
// optimizer among sgd and adamw, momentum, weight decay, whether norms and biases have it, clipping
// norm, label smoothing and decay of averages, 0 where there are none; and, of mixed images,
// `other_labels` and `shares` [steps, N]; then `average.NAME` is in OUT, too. OUT: `rates` and
// `losses` [steps], `gradient.first.NAME` and `gradient.last.NAME` of every parameter, as the first
// and the last step's optimizer takes it, and `state.NAME` of all state after them.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/core/GradMode.h>

#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "model/image_model.h"
#include "parallel/gradients/communicator.h"
#include "parity/tensor_files.h"
#include "store/state_dict_file.h"
#include "train/schedule/catalogue.h"
#include "train/state.h"
#include "train/step.h"

namespace kiln {
namespace {

using test::to_stored;
using test::to_tensor;
using Input = std::map<std::string, StoredTensor>;

Input read_input(const std::string& path) {
  Input input;
  for (StoredTensor& tensor : read_safetensors(read_file(path)))
    input[tensor.name] = std::move(tensor);
  return input;
}

std::unique_ptr<ImageModel> load_model(const std::string& name, at::ScalarType type,
                                       const Input& input) {
  auto model = make_image_model({.model_name = name});
  if (type == at::kDouble) model->to_float64();
  const at::NoGradGuard no_grad;
  for (const NamedTensor& item : model->state())
    at::Tensor(item.tensor).copy_(to_tensor(input.at(item.name), item.tensor.scalar_type()));
  model->prepare(at::kCPU);
  model->train(true);
  return model;
}

// Hands out the input's batches, and notes the gradients that the optimizer is about to take.
class ListedBatches : public StepContext {
 public:
  ListedBatches(const TrainState& state, at::ScalarType type, const Input& input)
      : images_(to_tensor(input.at("images"), type)),
        labels_(to_tensor(input.at("labels"), at::kLong)),
        state_(state) {}

  // From the input, for mixed images.
  void mix(const Input& input) {
    other_labels_ = to_tensor(input.at("other_labels"), at::kLong);
    shares_ = to_tensor(input.at("shares"), at::kFloat);
  }

  std::int64_t num_steps() const { return images_.size(0); }
  int batch_size() const { return static_cast<int>(images_.size(1)); }
  const StateDict& gradients() const { return gradients_; }

  std::optional<DeviceBatch> next() override {
    if (next_ == num_steps()) return std::nullopt;
    DeviceBatch batch{images_[next_].contiguous(at::MemoryFormat::ChannelsLast), labels_[next_]};
    if (shares_.defined()) {
      batch.other_labels = other_labels_[next_];
      batch.shares = shares_[next_];
    }
    ++next_;
    return batch;
  }

  void enter(StepPhase phase) override {
    if (phase != StepPhase::kOptimizer || (next_ > 1 && next_ < num_steps())) return;
    const std::string which = next_ == 1 ? "gradient.first." : "gradient.last.";
    const std::vector<NamedTensor> parameters = state_.model->named_parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i)
      gradients_.push_back(
          to_stored(which + parameters[i].name, state_.gradients.gradients().at(i)));
  }

 private:
  at::Tensor images_, labels_, other_labels_, shares_;
  const TrainState& state_;
  std::int64_t next_ = 0;
  StateDict gradients_;
};

void take_recipe(const at::Tensor& values, Recipe& recipe) {
  const auto value = [&](std::int64_t i) { return values[i].item<double>(); };
  recipe.optimizer.name = value(0) == 0 ? "sgd" : "adamw";
  recipe.optimizer.momentum = value(1);
  recipe.optimizer.weight_decay = value(2);
  recipe.optimizer.decays_norm_and_bias = value(3) != 0;
  recipe.clip_norm = value(4);
  recipe.loss.label_smoothing = value(5);
  recipe.ema = value(6);
}

void run(const std::string& name, const std::string& word, const std::string& in,
         const std::string& out) {
  const std::optional<Precision> precision = value_named<Precision>(kPrecisionNames, word);
  if (!precision && word != "fp64") throw std::invalid_argument(word + " is no precision");
  const at::ScalarType type = precision ? at::kFloat : at::kDouble;
  const Input input = read_input(in);
  const at::Tensor schedule = to_tensor(input.at("schedule"), at::kDouble);
  const auto communicator = make_local_communicator();
  Recipe recipe;
  recipe.precision = precision.value_or(Precision::kFp32);
  if (input.contains("class_weights")) {
    const at::Tensor weights = to_tensor(input.at("class_weights"), at::kDouble);
    recipe.loss.class_weights.assign(weights.const_data_ptr<double>(),
                                     weights.const_data_ptr<double>() + weights.numel());
  }
  const bool has_recipe = input.contains("recipe");
  at::Tensor given_rates;
  if (has_recipe) {
    take_recipe(to_tensor(input.at("recipe"), at::kDouble), recipe);
    given_rates = to_tensor(input.at("rates"), at::kDouble);
  }
  TrainState state(load_model(name, type, input), recipe, {}, *communicator);
  ListedBatches batches(state, type, input);
  recipe.schedule.epochs = static_cast<int>(batches.num_steps());
  if (has_recipe && input.contains("shares")) batches.mix(input);
  recipe.schedule.warmup_epochs = schedule[0].item<double>();
  recipe.schedule.peak = schedule[1].item<double>();
  TrainStep step(state, {.batch_size = batches.batch_size(),
                         .loss = recipe.loss,
                         .clip_norm = recipe.clip_norm,
                         .precision = recipe.precision});
  std::vector<double> rates, losses;
  for (std::int64_t i = 0; i < batches.num_steps(); ++i) {
    rates.push_back(has_recipe ? given_rates[i].item<double>() : rate(recipe.schedule, i));
    if (!step.run(batches, rates.back())) throw std::logic_error("a batch was not taken");
    losses.push_back(state.epoch.metrics.read().batch.loss());
  }
  StateDict output = batches.gradients();
  output.push_back(to_stored("rates", at::tensor(rates, at::kDouble)));
  output.push_back(to_stored("losses", at::tensor(losses, at::kDouble)));
  for (const NamedTensor& item : state.model->state())
    output.push_back(to_stored("state." + item.name, item.tensor));
  if (state.averages)
    for (const NamedTensor& item : state.averages->state())
      output.push_back(to_stored("average." + item.name, item.tensor));
  write_file_durably(out, write_safetensors(output));
}

}  // namespace
}  // namespace kiln

int main(int count, char** arguments) {
  if (count != 5) {
    std::cerr << "usage: kiln_train_tool MODEL PRECISION IN.safetensors OUT.safetensors\n";
    return 2;
  }
  try {
    kiln::run(arguments[1], arguments[2], arguments[3], arguments[4]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}
