#include "run/prepare/prepare.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/options.h"
#include "model/catalogue.h"
#include "predict/shortcuts.h"
#include "record/run_summary.h"
#include "run/judge.h"
#include "run/prepare/class_counts.h"
#include "run/prepare/plan.h"
#include "run/prepare/plan_warnings.h"
#include "run/prepare/rank_agreement.h"
#include "run/prepare/repeat_file.h"
#include "run/process/versions.h"

namespace kiln {
namespace {

DataRecord data_record(const Job& job) {
  const DataConfig& config = job.config.data;
  const Sources& sources = job.sources;
  const PixelPlan& pixels = job.plan.pixels;
  const Division& division = job.plan.division;
  DataRecord data;
  data.train_path = config.train_path;
  data.valid_path = config.valid_path;
  data.words = judge_of(sources.train).words(sources);
  data.classes = sources.train.classes;
  if (!sources.train.is_stream())
    data.train_counts = counts_of_all(job.world, sources.train, data.classes.size(),
                                      division.has_own_train ? &division.train : nullptr);
  data.valid_counts = counts_of_all(job.world, sources.valid, data.classes.size(),
                                    division.has_own_valid ? &division.valid : nullptr);
  data.image_height = pixels.train.output.height;
  data.image_width = pixels.train.output.width;
  const bool is_cropped = pixels.train.fit == Fit::kCrop;
  data.fit = fit_name(pixels.train.fit);
  data.cut_away = pixels.cut_away;
  if (job.world.leads())
    data.shortcuts = shortcuts_in_files(
        sources.train, sources.split ? sources.split->train_groups : std::vector<std::uint32_t>());
  data.resize_short_side = is_cropped ? pixels.train.short_side : 0;
  data.augment =
      sources.transform ? sources.transform->summary() : augment_name(pixels.train.augment);
  data.eval_height = pixels.valid.output.height;
  data.eval_width = pixels.valid.output.width;
  data.eval_resize_short_side = is_cropped ? pixels.valid.short_side : 0;
  data.normalization = pixels.normalization_name;
  std::copy(pixels.normalization.mean.begin(), pixels.normalization.mean.end(), data.mean);
  std::copy(pixels.normalization.std.begin(), pixels.normalization.std.end(), data.std);
  return data;
}

std::string set_text(const Dataset& set) {
  return (set.is_stream() ? "at most " : "") + plural(set.num_images(), "image", "images") +
         (set.is_stream() ? " in each epoch, " : ", ") +
         plural(std::ssize(set.classes), "class", "classes") + " (" + describe(set.kind) + " '" +
         set.root.string() + "'" +
         (set.contents.empty() ? "" : ", a stream that is kept in a temporary file") + ")";
}

// How many classes the images have; empty if each has one.
std::string labels_text(const Dataset& set) {
  std::int64_t labels = 0, without = 0;
  for (const Sample& item : set.samples) {
    const std::int64_t before = labels;
    set.for_each_class(item.label, [&](int) { ++labels; });
    without += labels == before;
  }
  if (without == 0 && labels == std::ssize(set.samples)) return "";
  return formatted("several an image, %.2f on average; %s without any",
                   static_cast<double>(labels) / static_cast<double>(set.samples.size()),
                   plural(without, "image", "images").c_str());
}

std::string size_text(const TransformSpec& pixels) {
  return formatted("%dx%d", pixels.output.width, pixels.output.height);
}

std::string center_text(const TransformSpec& pixels) {
  if (pixels.fit == Fit::kPad) return "padded";
  if (pixels.fit == Fit::kStretch) return "stretched";
  return formatted("short side to %d, center crop", pixels.short_side);
}

void plan_data(const Sources& sources, const PixelPlan& pixels, TextPairs& plan) {
  plan.emplace_back("training data", set_text(sources.train));
  plan.emplace_back("validation data", set_text(sources.valid));
  if (std::string labels = labels_text(sources.train); !labels.empty())
    plan.emplace_back("labels", std::move(labels));
  const TransformSpec &train = pixels.train, &valid = pixels.valid;
  const bool centered = !takes_random_parts(train.augment);
  plan.emplace_back(
      "image size",
      size_text(train) + " (" + pixels.size_reason +
          (centered && train.short_side > 0 ? "; other sizes: " + center_text(train) : "") + ")");
  if (valid.output != train.output || valid.short_side != (centered ? train.short_side : 0))
    plan.emplace_back("validation size",
                      size_text(valid) + (valid.chain ? "" : " (" + center_text(valid) + ")"));
  if (pixels.cut_away.value_or(0) > 0 || train.fit != Fit::kCrop)
    plan.emplace_back(
        "fit", fit_name(train.fit) + (pixels.cut_away ? "; " + cut_text(*pixels.cut_away) : ""));
  plan.emplace_back("EXIF orientation", train.exif == Exif::kApply
                                            ? "applied"
                                            : "ignored (--exif apply turns pictures)");
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
    return formatted("%.3g (", *weight) + classes.at(weight - weights.begin()) + ")";
  };
  return choice + ", " + text(least) + " to " + text(most);
}

void plan_balance(const Job& job, TextPairs& plan) {
  const OptimizationConfig& config = job.config.optimization;
  if (const std::vector<double>& weights = job.plan.recipe.loss.class_weights; !weights.empty())
    plan.emplace_back("class weights",
                      weights_text(config.class_weights.rule == ClassWeights::kGiven  ? "given"
                                   : config.class_weights.rule == ClassWeights::kSqrt ? "sqrt"
                                                                                      : "balanced",
                                   weights, job.sources.train.classes));
  if (job.sources.train.samples.has_weights())
    plan.emplace_back("image weights", "in the training loss, as the list says");
  if (config.sample == Sampling::kBalanced)
    plan.emplace_back("sampling", job.plan.uses_features
                                      ? "balanced, each class weighs the same in the fit"
                                      : "balanced, each class equally often per epoch");
}

void plan_model(const Job& job, const ImageModel& model, long long num_parameters,
                TextPairs& plan) {
  const Sources& sources = job.sources;
  const ModelSpec& spec = sources.spec();
  const PixelPlan& pixels = job.plan.pixels;
  const bool has_weights =
      !sources.weights_text.empty() || !job.config.data.network.weights.empty();
  plan.emplace_back("model", spec.model_name + ", " + grouped(num_parameters) + " parameters, " +
                                 (has_weights       ? "given weights"
                                  : spec.pretrained ? "pretrained weights"
                                                    : "fresh weights from the seed"));
  if (!sources.weights_text.empty()) plan.emplace_back("weights", sources.weights_text);
  if (const Freeze freeze = job.plan.recipe.freeze; freeze != Freeze::kNone) {
    long long num_trained = 0;
    for (const NamedTensor& item : model.trained_parameters()) num_trained += item.tensor.numel();
    plan.emplace_back("frozen", (freeze == Freeze::kNorm ? "the norms"
                                 : freeze == Freeze::kBackbone
                                     ? "the backbone"
                                     : formatted("up to stage%d", static_cast<int>(freeze))) +
                                    "; " + grouped(num_trained) + " of " + grouped(num_parameters) +
                                    " parameters are trained");
  }
  plan.emplace_back(
      "normalization",
      pixels.normalization_name +
          (pixels.normalization_reason.empty() ? "" : " (" + pixels.normalization_reason + ")"));
}

// What to type where pretrained weights help most: few photos are learned from scratch.
void plan_better_start(const Job& job, TextPairs& plan) {
  const TrainConfig& config = job.config;
  constexpr int kSmallSide = 64;
  constexpr std::size_t kFewPhotos = 50'000, kFewInClass = 1000;
  const Sources& sources = job.sources;
  const ImageSize size = job.plan.pixels.train.output;
  const std::size_t images = sources.train.samples.size();
  const KnownNetwork& network = known_network(sources.spec().model_name);
  if (!config.data.network.weights.empty() || !config.data.untrained_model_path.empty() ||
      sources.train.is_stream() || find_published(network, "torchvision") == nullptr ||
      std::min(size.height, size.width) <= kSmallSide ||
      images >= std::min(kFewPhotos, kFewInClass * sources.num_classes()))
    return;
  std::string line = "kiln";
  for (const std::string& word : config.ranks.arguments)
    line += " " + shell_word(without_secrets(word));
  if (config.settings.is_given(options::kCheckpointPath)) line += " --resume never";
  plan.emplace_back("better start",
                    "`" + line +
                        " --weights torchvision` begins with torchvision's trained network" +
                        formatted(" (a download of %d MB)", network.published[0].megabytes));
}

// The device, precision, data loading and ranks.
void plan_machine(const Run& run, TextPairs& plan) {
  const int num_ranks = run.world.size();
  const Machine& machine = run.machine;
  const double rate = run.plan.learning_rate, peak = run.plan.recipe.schedule.peak;
  plan.emplace_back("device", machine.device.description +
                                  formatted(", %d compute and %d loader threads",
                                            at::get_num_threads(), machine.loader_threads.first) +
                                  (num_ranks == 1 ? ", 1 rank" : ""));
  plan.emplace_back("precision", precision_name(run.plan.precision.precision) + " (" +
                                     run.plan.precision.reason + ")");
  plan.emplace_back("loading", bytes_text(run.loaders->max_memory_bytes()) +
                                   " of memory at most; cache: " + run.cache.reason);
  if (num_ranks > 1)
    plan.emplace_back(
        kRanksLabel,
        describe_ranks(run.world) +
            (machine.num_bound_cpus == 0
                 ? ""
                 : formatted(", each bound to %d processors", machine.num_bound_cpus)) +
            formatted("; global batch of %lld images, learning rate %g x %g = %g",
                      static_cast<long long>(run.plan.global_batch), rate, peak / rate, peak));
  std::ranges::move(run.state->exchange->plan(), std::back_inserter(plan));
}

// For a head that is fitted to features, instead of training in epochs.
void plan_features(const Job& job, TextPairs& lines) {
  const OptimizationConfig& config = job.config.optimization;
  const Plan& plan = job.plan;
  lines.emplace_back(
      "plan",
      std::string("one pass through the frozen network, then the last layer is fitted to the "
                  "features, with a penalty chosen by cross-validation") +
          (config.folds > 0 ? formatted("; %d folds", config.folds) : "") +
          formatted("; seed %lld", static_cast<long long>(plan.loading.seed)));
  if (config.time_limit_s > 0)
    lines.emplace_back(kTimeLimitLabel,
                       plan.stop.time_limit_word +
                           "; ends the fit of the last layer, but not the pass of all images "
                           "before it");
  plan_balance(job, lines);
}

// Adds a line with --recipe and the effective value of each of its options; none if all of them are
// the designer's.
void plan_recipe(const TrainConfig& asked, TextPairs& plan) {
  const OptimizationConfig& config = asked.optimization;
  const std::string& recipe = config.recipe.name;
  const bool is_for_fewer =
      std::ranges::any_of(asked.settings,
                          [](const Setting& one) { return one.origin == Origin::kLength; }) &&
      config.time_limit_s > 0 && config.epochs > kUsualEpochsInTime;
  std::string text =
      recipe + (is_for_fewer ? formatted(", as for %d epochs:", kUsualEpochsInTime) : ":");
  bool is_plain = recipe == "designer";
  // Options of other groups come last: other lines show them, so they are no reason for this one.
  const std::string& group = asked.settings.of(options::kRecipe).option->group;
  for (const bool is_of_group : {true, false})
    for (const Setting& used : asked.settings) {
      const Option& option = *used.option;
      if (!option.is_of_recipe || (option.group == group) != is_of_group) continue;
      text += " --" + option.name + " " + used.text;
      if (is_of_group && used.text != option.default_text) is_plain = false;
    }
  if (!is_plain) plan.emplace_back("recipe", std::move(text));
}

void plan_epochs(const Run& run, TextPairs& lines) {
  const Plan& plan = run.plan;
  const OptimizationConfig& config = run.config.optimization;
  const double peak = plan.recipe.schedule.peak;
  if (plan.is_automatic)
    lines.emplace_back(
        "two parts",
        "one pass through the frozen network, and the last layer is fitted to the features (epoch "
        "1); then all layers are fine-tuned, and the result is kept unless epoch 1 is better on "
        "the validation images");
  const std::optional<TimePlan>& time = run.state->progress.time_plan;
  const bool is_limited = run.stop->has_time_limit();
  std::string steps = plan.is_automatic ? "after epoch 1, " : "";
  if (is_limited && time->epochs == 0) steps += "at most ";
  steps +=
      formatted("%s of %s of %s, learning rate %g, warm-up %g epochs, %s, seed %lld",
                plural(run.stop->scheduled_epochs(), "epoch", "epochs").c_str(),
                plural(plan.division.steps_per_epoch, "step", "steps").c_str(),
                plural(plan.global_batch, "image", "images").c_str(), peak, config.num_warmup_steps,
                config.patience == kNoEarlyStop ? "no early stopping"
                                                : formatted("patience %d", config.patience).c_str(),
                static_cast<long long>(config.random_seed));
  if (const long long left_over = images_left_over(plan, run.sources); left_over > 0)
    steps += "; " + plural(left_over, "image", "images") + " left over in each epoch";
  if (config.steps > 0)
    steps += formatted("; %lld steps in all", static_cast<long long>(config.steps));
  if (const double factor = plan.recipe.optimizer.head_rate; factor != 1)
    steps += formatted("; learning rate of the last layer %g", peak * factor);
  lines.emplace_back("plan", std::move(steps));
  if (is_limited) lines.emplace_back(kTimeLimitLabel, run.stop->time_text());
  plan_recipe(run.config, lines);
  plan_balance(run, lines);
}

}  // namespace

RunStart describe_run(const Run& run) {
  const TrainConfig& config = run.config;
  const Plan& plan = run.plan;
  RunStart start;
  start.time = unix_seconds();
  start.options = plan.texts_in_effect;
  start.versions = versions(run.machine.device.is_cuda);
  start.command = "kiln train";  // with what is given and all that --recipe sets instead of it
  for (const Setting& setting : config.settings)
    if (const std::string& name = setting.option->name;
        setting.is_given() && name != options::kRecipe)
      start.command += " --" + name + " " + shell_word(setting.text);
  start.model = run.sources.spec().model_name;
  start.device = run.machine.device.description;
  start.host = host_name();
  start.precision = precision_name(plan.precision.precision);
  start.precision_reason = plan.precision.reason;
  for (const at::Tensor& parameter : run.state->model->parameters())
    start.num_parameters += parameter.numel();
  start.num_ranks = run.world.size();
  start.num_epochs = run.stop->last_epoch();
  start.steps_per_epoch = plan.uses_features ? 0 : static_cast<int>(plan.division.steps_per_epoch);
  start.global_batch = static_cast<int>(plan.global_batch);
  start.data = data_record(run);
  plan_data(run.sources, plan.pixels, start.plan);
  plan_model(run, *run.state->model, start.num_parameters, start.plan);
  plan_better_start(run, start.plan);
  plan_machine(run, start.plan);
  if (plan.uses_features)
    plan_features(run, start.plan);
  else
    plan_epochs(run, start.plan);
  add_found_lines(plan.settings, start.plan);
  for (const std::string& idle : idle_gpus(run.world, run.machine.device))
    start.plan.emplace_back("idle", idle + ": use `kiln train --ranks auto` to use all of them");
  return start;
}

}  // namespace kiln
