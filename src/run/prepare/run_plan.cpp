#include "run/prepare/run_plan.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "cli/options.h"
#include "run/prepare/automatic_plan.h"
#include "run/prepare/choices.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/run_recipe.h"
#include "run/process/versions.h"
#include "run/time_limit.h"

namespace kiln {
namespace {

DataRecord data_record(const TrainingJob& job) {
  const DataConfig& config = job.config.data;
  const TrainingInputs& inputs = job.inputs;
  DataRecord data;
  data.train_path = config.train_path;
  data.valid_path = config.valid_path;
  data.classes = inputs.train.classes;
  if (!inputs.train.is_stream())
    data.train_counts = counts_of_all(job.world, inputs.train, data.classes.size(),
                                      config.has_train_shard ? &inputs.train_shard : nullptr);
  data.valid_counts = counts_of_all(job.world, inputs.valid, data.classes.size(),
                                    config.has_valid_shard ? &inputs.valid_shard : nullptr);
  data.image_height = inputs.pixels.output.height;
  data.image_width = inputs.pixels.output.width;
  data.resize_short_side = inputs.pixels.short_side;
  data.augment = inputs.transform ? inputs.transform->summary() : augment_name(config.augment);
  data.eval_height = inputs.valid_pixels.output.height;
  data.eval_width = inputs.valid_pixels.output.width;
  data.eval_resize_short_side = inputs.valid_pixels.short_side;
  data.normalization = inputs.normalization_name;
  std::copy(inputs.normalization.mean.begin(), inputs.normalization.mean.end(), data.mean);
  std::copy(inputs.normalization.std.begin(), inputs.normalization.std.end(), data.std);
  return data;
}

// Includes only options with non-default values, among them all that --recipe sets.
std::string repeating_command(const TrainConfig& config) {
  const CommandInfo& command = *find_command("train");
  std::string line = "kiln train";
  for (const auto& [name, value] : config.effective_options) {
    const Option* option = find_option(command, name);
    if (option == nullptr || value == option->default_text || name == "recipe") continue;
    line += " --" + name + " " + shell_word(value);
  }
  return line;
}

std::string set_text(const Dataset& set) {
  return (set.is_stream() ? "at most " : "") + grouped(set.num_images()) + " images" +
         (set.is_stream() ? " in each epoch, " : ", ") + std::to_string(set.classes.size()) +
         (set.classes.size() == 1 ? " class" : " classes") + " (" + describe(set.kind) + " '" +
         set.root.string() + "'" +
         (set.contents.empty() ? "" : ", a stream that is kept in a temporary file") + ")";
}

std::string size_text(const TransformSpec& pixels) {
  return formatted("%dx%d", pixels.output.width, pixels.output.height);
}

std::string center_text(const TransformSpec& pixels) {
  return formatted("short side to %d, center crop", pixels.short_side);
}

std::string exif_text(const TrainingInputs& inputs) {
  return inputs.pixels.exif == Exif::kApply ? "applied" : "ignored (--exif apply turns pictures)";
}

void plan_data(const TrainingInputs& inputs, TextPairs& plan) {
  plan.emplace_back("training data", set_text(inputs.train));
  plan.emplace_back("validation data", set_text(inputs.valid));
  const TransformSpec &train = inputs.pixels, &valid = inputs.valid_pixels;
  const bool centered = !takes_random_parts(train.augment);
  plan.emplace_back(
      "image size",
      size_text(train) + " (" + inputs.size_reason +
          (centered && train.short_side > 0 ? "; other sizes: " + center_text(train) : "") + ")");
  if (valid.output != train.output || valid.short_side != (centered ? train.short_side : 0))
    plan.emplace_back("validation size",
                      size_text(valid) + (valid.chain ? "" : " (" + center_text(valid) + ")"));
  plan.emplace_back("EXIF orientation", exif_text(inputs));
  if (train.chain) {
    plan.emplace_back("transformation", train.chain->whole.summary());
    plan.emplace_back("for validation", valid.chain->whole.summary());
  }
  if (train.augment != Augment::kNone)
    plan.emplace_back("augmentation",
                      augment_name(train.augment) + " (" + augment_text(train.augment) + ")");
}

// "balanced, 0.37 (cat) to 3.33 (dog)".
std::string weights_text(const std::string& choice, const std::vector<double>& weights,
                         const std::vector<std::string>& classes) {
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  const auto text = [&](auto weight) {
    return formatted("%.3g (", *weight) +
           printable(classes.at(static_cast<std::size_t>(weight - weights.begin()))) + ")";
  };
  return choice + ", " + text(least) + " to " + text(most);
}

void plan_balance(const TrainingJob& job, TextPairs& plan) {
  const OptimizationConfig& config = job.config.optimization;
  if (const std::vector<double>& weights = job.recipe.loss.class_weights; !weights.empty())
    plan.emplace_back(
        "class weights",
        weights_text(config.class_weights == ClassWeights::kSqrt ? "sqrt" : "balanced", weights,
                     job.inputs.train.classes));
  if (config.sample == Sampling::kBalanced)
    plan.emplace_back("sampling", "balanced, each class equally often per epoch");
}

// Which part of the network is frozen, and how many parameters are still trained.
std::string frozen_text(const TrainingJob& job, const TrainState& state, long long num_parameters) {
  long long num_trained = 0;
  for (const NamedTensor& item : state.model->trained_parameters())
    num_trained += item.tensor.numel();
  const bool is_norm = job.recipe.freeze == Freeze::kNorm;
  return std::string(is_norm ? "BatchNorm" : "the backbone") + "; " + grouped(num_trained) +
         " of " + grouped(num_parameters) + " parameters are trained";
}

void plan_model(const TrainingJob& job, const TrainState& state, long long num_parameters,
                TextPairs& plan) {
  const TrainingInputs& inputs = job.inputs;
  const ModelSpec& spec = inputs.untrained.spec;
  const bool has_weights = !inputs.weights_text.empty() || !job.config.data.network.weights.empty();
  plan.emplace_back("model", spec.model_name + ", " + grouped(num_parameters) + " parameters, " +
                                 (has_weights       ? "given weights"
                                  : spec.pretrained ? "pretrained weights"
                                                    : "fresh weights from the seed"));
  if (!inputs.weights_text.empty()) plan.emplace_back("weights", inputs.weights_text);
  if (job.recipe.freeze != Freeze::kNone)
    plan.emplace_back("frozen", frozen_text(job, state, num_parameters));
  plan.emplace_back(
      "normalization",
      inputs.normalization_name +
          (inputs.normalization_reason.empty() ? "" : " (" + inputs.normalization_reason + ")"));
}

// The device, precision, data loading and ranks.
void plan_machine(const TrainingJob& job, const TrainState& state, TextPairs& plan) {
  const int num_ranks = job.world.size();
  const double rate = job.config.optimization.learning_rate, peak = job.recipe.schedule.peak;
  plan.emplace_back("device", job.device.description +
                                  formatted(", %d compute and %d loader threads",
                                            at::get_num_threads(), job.loader_threads.first) +
                                  (num_ranks == 1 ? ", 1 rank" : ""));
  plan.emplace_back("precision",
                    precision_name(job.precision.precision) + " (" + job.precision.reason + ")");
  plan.emplace_back("loading", bytes_text(job.loaders->max_memory_bytes()) +
                                   " of memory at most; cache: " + job.cache.reason);
  if (num_ranks > 1)
    plan.emplace_back(
        kRanksLabel,
        describe_ranks(job.world) +
            (job.bound_to == 0 ? "" : formatted(", each bound to %d processors", job.bound_to)) +
            formatted("; global batch of %lld images, learning rate %g x %g = %g",
                      static_cast<long long>(job.global_batch()), rate, peak / rate, peak));
  std::ranges::move(state.exchange->plan(), std::back_inserter(plan));
}

// For a head that is fitted to features, instead of training in epochs.
void plan_features(const TrainingJob& job, TextPairs& plan) {
  const OptimizationConfig& config = job.config.optimization;
  plan.emplace_back("plan", feature_plan_text(config));
  if (config.time_limit_s > 0) plan.emplace_back(kTimeLimitLabel, time_limit_text(job, {}));
}

void plan_epochs(const TrainingJob& job, const TrainState& state, TextPairs& plan) {
  const OptimizationConfig& config = job.config.optimization;
  const TrainingInputs& inputs = job.inputs;
  const double peak = job.recipe.schedule.peak;
  const long long global_batch = job.global_batch();
  if (job.is_automatic) plan.emplace_back("two parts", automatic_plan_text());
  const std::optional<TimePlan> time = time_plan_of(job, state);
  std::string steps = time && time->epochs == 0 ? "at most " : "";
  steps += formatted(
      "%d epochs of %lld steps of %lld images, learning rate %g, "
      "warm-up %g epochs, %s, seed %lld",
      job.recipe.schedule.epochs, static_cast<long long>(inputs.steps_per_epoch), global_batch,
      peak, config.num_warmup_steps,
      config.patience == kNoEarlyStop ? "no early stopping"
                                      : formatted("patience %d", config.patience).c_str(),
      static_cast<long long>(config.random_seed));
  if (const long long left_over = images_left_over(job); left_over > 0)
    steps += formatted("; %lld of %zu images left over in each epoch, different ones each time",
                       left_over, inputs.train.samples.size());
  if (config.steps > 0)
    steps += formatted("; %lld steps in all", static_cast<long long>(config.steps));
  if (const double factor = job.recipe.optimizer.head_rate; factor != 1)
    steps += formatted("; learning rate of the last layer %g", peak * factor);
  plan.emplace_back("plan", std::move(steps));
  if (time) plan.emplace_back(kTimeLimitLabel, time_limit_text(job, *time));
  plan_recipe(job.config, plan);
  plan_balance(job, plan);
}

TextPairs plan_of(const TrainingJob& job, const TrainState& state, long long num_parameters) {
  TextPairs plan;
  plan_data(job.inputs, plan);
  plan_model(job, state, num_parameters, plan);
  plan_machine(job, state, plan);
  if (job.uses_features)
    plan_features(job, plan);
  else
    plan_epochs(job, state, plan);
  add_choice_lines(job.choices, plan);
  return plan;
}

}  // namespace

RunStart describe_run(const TrainingJob& job, const TrainState& state) {
  RunStart start;
  start.time = unix_seconds();
  start.options = options_in_effect(job);
  start.versions = versions(job.device.is_cuda);
  start.command = repeating_command(job.config);
  start.model = job.inputs.untrained.spec.model_name;
  start.device = job.device.description;
  start.host = host_name();
  start.precision = precision_name(job.precision.precision);
  start.precision_reason = job.precision.reason;
  for (const at::Tensor& parameter : state.model->parameters())
    start.num_parameters += parameter.numel();
  start.num_ranks = job.world.size();
  start.num_epochs = job.num_epochs();
  start.steps_per_epoch = job.uses_features ? 0 : static_cast<int>(job.inputs.steps_per_epoch);
  start.global_batch = static_cast<int>(job.global_batch());
  start.data = data_record(job);
  start.plan = plan_of(job, state, start.num_parameters);
  for (const std::string& idle : idle_gpus(job.world, job.device))
    start.plan.emplace_back("idle", idle + ": use `kiln train --ranks auto` to use all of them");
  return start;
}

}  // namespace kiln
