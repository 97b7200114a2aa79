#include "run/prepare/run_recipe.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "run/prepare/prepare.h"

namespace kiln {

Recipe recipe_of(const OptimizationConfig& config, const TrainingInputs& inputs, int num_ranks,
                 Precision precision) {
  Recipe recipe;
  recipe.precision = precision;
  recipe.freeze = config.freeze;
  if (config.head_learning_rate)
    recipe.optimizer.head_rate = *config.head_learning_rate / config.learning_rate;
  recipe.optimizer.name = config.recipe.optimizer;
  recipe.optimizer.momentum = config.recipe.momentum;
  recipe.optimizer.weight_decay = config.recipe.weight_decay;
  recipe.optimizer.decays_norm_and_bias = config.recipe.decays_norm_and_bias;
  recipe.clip_norm = config.recipe.clip_norm;
  recipe.ema = config.recipe.ema;
  recipe.loss.label_smoothing = config.recipe.label_smoothing;
  recipe.mix = {config.recipe.mixup, config.recipe.cutmix,
                static_cast<std::uint64_t>(config.random_seed)};
  recipe.schedule.name = config.recipe.schedule;
  recipe.schedule.warmup_epochs = config.num_warmup_steps;
  recipe.schedule.peak = config.learning_rate * config.lr_scaling.of(num_ranks);
  recipe.schedule.steps_per_epoch = static_cast<int>(inputs.steps_per_epoch);
  return recipe;
}

void check_recipe_of_features(const TrainingJob& job) {
  if (!job.uses_features) return;
  const RecipeConfig& recipe = job.config.optimization.recipe;
  const std::vector<std::pair<const char*, bool>> given = {
      {"optimizer", recipe.optimizer != "sgd"},
      {"ema", recipe.ema > 0},
      {"clip-norm", recipe.clip_norm > 0},
      {"label-smoothing", recipe.label_smoothing > 0},
      {"mixup", recipe.mixup > 0},
      {"cutmix", recipe.cutmix > 0},
      {"image-size", job.config.data.image_size.first > 0}};
  for (const auto& [name, is_given] : given)
    if (is_given)
      throw Error(
          ErrorCode::kUserError,
          "--" + std::string(name) +
              " applies to training in epochs, but with --freeze backbone and --augment none the "
              "last layer is fitted to features directly: use --augment flip, or leave --" +
              name + " out.");
}

void plan_recipe(const TrainConfig& config, TextPairs& plan) {
  const CommandInfo& command = *find_command("train");
  std::string text = config.optimization.recipe.name + ":";
  bool is_plain = config.optimization.recipe.name == "designer";
  // Options of other groups come last: other lines show them, so they are no reason for this one.
  const std::string& group = find_option(command, "recipe")->group;
  for (const bool is_of_group : {true, false})
    for (const Option& option : command.options) {
      const auto used =
          std::find_if(config.effective_options.begin(), config.effective_options.end(),
                       [&](const auto& one) { return one.first == option.name; });
      if (!option.is_of_recipe || (option.group == group) != is_of_group ||
          used == config.effective_options.end())
        continue;
      text += " --" + option.name + " " + used->second;
      if (is_of_group && used->second != option.default_text) is_plain = false;
    }
  if (!is_plain) plan.emplace_back("recipe", std::move(text));
}

}  // namespace kiln
