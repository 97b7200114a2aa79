#include "run/run_start.h"

#include <algorithm>

#include "base/machine.h"
#include "base/shell_words.h"
#include "config/options.h"

namespace kiln {
namespace {

DataRecord data_record(const TrainConfig& config, World& world, const TrainingInputs& inputs) {
  DataRecord data;
  data.train_path = config.data.train_path;
  data.valid_path = config.data.valid_path;
  data.classes = inputs.train.classes;
  const auto count = [&](const ImageSet& set, bool is_part, const RankShare& share) {
    std::vector<long long> counts = counts_by_class(set, data.classes.size());
    if (!is_part) return counts;
    std::vector<double> mine(counts.begin(), counts.end());
    if (share.rank > 0) std::fill(mine.begin(), mine.end(), 0.0);
    const std::vector<double> all = world.sum(mine);
    std::transform(all.begin(), all.end(), counts.begin(),
                   [](double sum) { return static_cast<long long>(sum); });
    return counts;
  };
  data.train_counts = count(inputs.train, config.data.has_train_shard, inputs.train_share);
  data.valid_counts = count(inputs.valid, config.data.has_valid_shard, inputs.valid_share);
  data.image_height = inputs.pixels.output.height;
  data.image_width = inputs.pixels.output.width;
  data.resize_short_side = inputs.pixels.short_side;
  data.augment = augment_name(config.data.augment);
  data.eval_height = inputs.valid_pixels.output.height;
  data.eval_width = inputs.valid_pixels.output.width;
  data.eval_resize_short_side = inputs.valid_pixels.short_side;
  data.normalization = inputs.normalization_name;
  for (std::size_t c = 0; c < 3; ++c) {
    data.mean[c] = inputs.normalization.mean[c];
    data.std[c] = inputs.normalization.std[c];
  }
  return data;
}

// With the options whose values are not the defaults.
std::string repeating_command(const TrainConfig& config) {
  const CommandInfo& command = *find_command("train");
  std::string line = "kiln train";
  for (const auto& [name, value] : config.effective_options) {
    const Option* option = find_option(command, name);
    if (option == nullptr || value == option->default_text) continue;
    line += " --" + name + " " + shell_word(value);
  }
  return line;
}

}  // namespace

RunStart run_start(const TrainConfig& config, World& world, const TrainingInputs& inputs) {
  RunStart start;
  start.time = unix_seconds();
  start.options = config.effective_options;
  start.command = repeating_command(config);
  start.model = inputs.untrained.spec.model_name;
  start.num_ranks = world.size();
  start.num_epochs = config.optimization.epochs;
  start.steps_per_epoch = static_cast<int>(inputs.steps_per_epoch);
  start.global_batch =
      config.optimization.batch_size * world.size() * config.optimization.accumulate;
  start.data = data_record(config, world, inputs);
  return start;
}

}  // namespace kiln
