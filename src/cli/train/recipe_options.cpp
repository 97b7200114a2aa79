// The recipe of `kiln train`: the options for the optimizer, the learning-rate schedule, weight
// averaging and mixing images, and the sets of options that --recipe names.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"
#include "cli/recipe_names.h"
#include "model/catalogue.h"
#include "train/optimizer/catalogue.h"
#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

std::vector<TrainOption> optimizer_options() {
  return {
      {Effect::kFree, choice("recipe", {"designer", "modern"}, kRecipe,
                             "A set of options, each of which can be overridden; the first log "
                             "lines list them. designer: the defaults. modern: higher accuracy in "
                             "the same number of epochs; see docs/recipes.md.")},
      {Effect::kResult, catalogue_choice("optimizer", kKnownOptimizers, "")},
      {Effect::kResult, number_from("momentum", "0.9", 0, 1, "", kRecipe,
                                    "Momentum of sgd and lars; beta1 of adamw.")},
      {Effect::kResult,
       number_from("weight-decay", "0.0001", 0, 1, "", kRecipe,
                   "Weight decay: sgd and lars add this multiple of the weights to the gradient; "
                   "adamw shrinks weights by it, times the learning rate.")},
      {Effect::kResult, choice("no-decay", {"none", "norm-and-bias"}, kRecipe,
                               "Parameters without weight decay. norm-and-bias: those of "
                               "normalization layers, and biases.")},
      {Effect::kResult,
       number_from("clip-norm", "0", 0, kMillion, "", kRecipe,
                   "Clip the gradient of a step, summed over all ranks, to this norm. 0: off.")},
      {Effect::kResult, number_from("ema", "0", 0, 1, "", kRecipe,
                                    "Keep an exponential moving average of the weights with this "
                                    "decay, such as 0.999; it is validated and saved. 0: off.")},
  };
}

std::vector<TrainOption> schedule_options() {
  return {
      {Effect::kResult, catalogue_choice("lr-schedule", kKnownSchedules,
                                         "How the learning rate falls after warm-up.")},
      {Effect::kResult, number_from("label-smoothing", "0", 0, 1, "", kRecipe,
                                    "Share of each label that the training loss spreads over all "
                                    "classes. Reported losses do not include it.")},
      {Effect::kResult, number_from("mixup", "0", 0, 100, "", kRecipe,
                                    "Blend pairs of training images and their labels, by a share "
                                    "drawn from Beta(X, X). 0: off.")},
      {Effect::kResult,
       number_from("cutmix", "0", 0, 100, "", kRecipe,
                   "Paste rectangles between pairs of training images, with an area drawn from "
                   "Beta(X, X); with --mixup, a pair gets either. 0: off.")},
  };
}

// Reports a number that is not less than 1. The options' ranges include 1.
void check_below_1(Binder& binder, const char* name, double value, const std::string& why) {
  if (value < 1) return;
  binder.fault(name, ErrorCode::kLessThanOrEqualTo,
               std::string("--") + name + " is 1, " + why + ": use a smaller number.");
}

bool mixes(const RecipeConfig& config) {
  return config.mixup > 0 || config.cutmix > 0;
}

void check_mixing(Binder& binder, const OptimizationConfig& config) {
  if (!mixes(config.recipe) || config.batch_size < 1 || config.batch_size % 2 == 0) return;
  const std::string name = config.recipe.mixup > 0 ? "mixup" : "cutmix";
  binder.fault(name.c_str(), ErrorCode::kParameterParsing,
               "--" + name + " mixes the images of a batch in pairs, but --batch-size is " +
                   std::to_string(config.batch_size) + ": use an even one, or --" + name + " 0.");
}

// With --time-limit, the number of epochs is known only after the first epoch has been timed.
void check_time_limit(Binder& binder, const TrainConfig& config) {
  const OptimizationConfig& optimization = config.optimization;
  const RecipeConfig& recipe = optimization.recipe;
  if (optimization.time_limit_s == 0) return;
  if (config.data.first_image_size > 0)
    binder.fault(
        "image-size", ErrorCode::kParameterParsing,
        "--time-limit plans epochs by the time of the first, but with a growing --image-size later "
        "ones take longer: use one size, or --epochs instead of --time-limit.");
  const KnownSchedule* schedule = find_known_schedule(recipe.schedule);
  if (schedule == nullptr) return;  // an unknown name, which is already reported
  const bool falls_in_first_epoch = schedule->is_per_step && optimization.num_warmup_steps < 1 &&
                                    schedule->depends_on_length == DependsOnLength::kAfterWarmup;
  if (schedule->depends_on_length == DependsOnLength::kAlways || falls_in_first_epoch)
    binder.fault("lr-schedule", ErrorCode::kParameterParsing,
                 "--time-limit sets the number of epochs after the first one, whose learning rates "
                 "must not depend on it: use --lr-schedule polynomial, or cosine with "
                 "--num-warmup-steps 1 or more.");
}

void imply_modern(Binder& binder) {
  const auto imply = [&](const char* name, const std::string& text) {
    binder.imply(name, text, "recipe");
  };
  const auto images =
      static_cast<double>(binder.integer("batch-size")) * binder.small_integer("accumulate");
  // Null for an unknown name, which is already reported.
  if (const KnownOptimizer* optimizer = find_optimizer(binder.choice("optimizer"))) {
    if (images > 0)
      imply("learning-rate", formatted("%.6g", optimizer->modern_learning_rate(images)));
    imply("weight-decay", std::string(optimizer->modern_weight_decay));
  }
  imply("no-decay", "norm-and-bias");
  imply("ema", "0.999");
  imply("lr-schedule", "cosine");
  constexpr double kShare = 0.1, kMost = 2;  // warm-up: share of all epochs; maximum in epochs
  const double epochs =
      binder.given("time-limit") ? kMost / kShare : binder.small_integer("epochs");
  imply("num-warmup-steps", formatted("%g", std::min(kMost, kShare * epochs)));
  imply("label-smoothing", "0.1");
  imply("mixup", "0.1");
  if (!binder.given("transform-path")) {
    imply("augment", "standard");
    imply("eval-crop", "larger");
  }
  imply("patience", std::to_string(kNoEarlyStop));
  imply("precision", "auto");
  const KnownNetwork* network = find_network(binder.choice("model-name"));
  if (network != nullptr && !binder.given("weights") && network->family().allows(kZeroInitResidual))
    imply("zero-init-residual", "True");
}

}  // namespace

const std::vector<std::string>& recipe_names() {
  static const std::vector<std::string> kNames = {
      "optimizer",         "learning-rate", "momentum", "weight-decay",
      "no-decay",          "clip-norm",     "ema",      "lr-schedule",
      "num-warmup-steps",  "augment",       "mixup",    "cutmix",
      "label-smoothing",   "eval-crop",     "patience", "precision",
      "zero-init-residual"};
  return kNames;
}

std::vector<TrainOption> recipe_options() {
  std::vector<TrainOption> options = optimizer_options();
  const std::vector<TrainOption> more = schedule_options();
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

void imply_recipe(Binder& binder) {
  if (binder.choice("recipe") == "modern") imply_modern(binder);
}

RecipeConfig bind_recipe(Binder& binder) {
  RecipeConfig config;
  config.name = binder.choice("recipe");
  config.optimizer = binder.choice("optimizer");
  config.momentum = binder.number("momentum");
  config.weight_decay = binder.number("weight-decay");
  config.decays_norm_and_bias = binder.choice("no-decay") != "norm-and-bias";
  config.clip_norm = binder.number("clip-norm");
  config.ema = binder.number("ema");
  config.schedule = binder.choice("lr-schedule");
  config.label_smoothing = binder.number("label-smoothing");
  config.mixup = binder.number("mixup");
  config.cutmix = binder.number("cutmix");
  check_below_1(binder, "momentum", config.momentum, "with which steps would add up forever");
  check_below_1(binder, "ema", config.ema, "with which the average would never change");
  check_below_1(binder, "label-smoothing", config.label_smoothing,
                "with which labels would carry no information");
  return config;
}

void settle_recipe(Binder& binder, const TrainConfig& config) {
  check_mixing(binder, config.optimization);
  check_time_limit(binder, config);
}

}  // namespace kiln
