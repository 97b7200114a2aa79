#include "commands/training_report.h"

#include <algorithm>
#include <cstdio>

#include "report/lines.h"
#include "train/schedule.h"

namespace kiln {
namespace {

template <typename... Values>
std::string text(const char* format, Values... values) {
  char buffer[400];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

std::string describe_set(const ImageSet& set) {
  return grouped(static_cast<long long>(set.items.size())) + " images, " +
         std::to_string(set.classes.size()) + (set.classes.size() == 1 ? " class" : " classes") +
         " (" + describe(set.kind) + " '" + set.root.string() + "')";
}

void report_empty_classes(const ImageSet& set, const std::string& name, Log& log) {
  std::vector<long long> counts(set.classes.size());
  for (const ImageItem& item : set.items) ++counts[static_cast<std::size_t>(item.label)];
  std::string empty;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] == 0) empty += (empty.empty() ? "'" : ", '") + set.classes[c] + "'";
  if (!empty.empty()) log.warning("no " + name + " image has the class " + empty);
}

void report_data(const TrainingInputs& inputs, Log& log) {
  log.info("training data:    " + describe_set(inputs.train));
  log.info("validation data:  " + describe_set(inputs.valid));
  for (const ImageSet* set : {&inputs.train, &inputs.valid})
    for (const std::string& note : set->notes) log.warning(note);
  report_empty_classes(inputs.train, "training", log);
  if (inputs.train.classes.size() == 1)
    log.warning(
        "there is only one class: every answer will be right, and the model will have learned "
        "nothing");
  const ImageSize size = inputs.pixels.output;
  log.info(text("image size:       %dx%d (", size.width, size.height) + inputs.size_reason +
           (inputs.resize_short_side > 0
                ? text("; other sizes: short side to %d, centre cut", inputs.resize_short_side)
                : std::string()) +
           ")");
}

}  // namespace

void report_plan(const TrainConfig& config, const TrainingInputs& inputs, const PlanFacts& facts,
                 Log& log) {
  report_data(inputs, log);
  const ModelSpec& spec = inputs.untrained.spec;
  log.info("model:            " + spec.model_name + ", " + grouped(facts.num_parameters) +
           " parameters, " +
           (spec.pretrained ? "pretrained weights" : "fresh weights from the seed"));
  log.info("normalization:    " + inputs.normalization_name);
  log.info("device:           " + facts.device +
           text(", float32, %d compute and %d loader threads, 1 rank", facts.threads,
                facts.loader_threads));
  const auto steps = inputs.train.items.size() / static_cast<std::size_t>(config.batch_size);
  log.info(text(
      "plan:             %d epochs of %zu steps of %d images, learning rate %g, warm-up %d epochs, "
      "patience %d, seed %lld",
      config.epochs, steps, config.batch_size, config.learning_rate, config.num_warmup_steps,
      config.patience, static_cast<long long>(config.random_seed)));
  const Schedule schedule{config.epochs, config.num_warmup_steps, config.learning_rate};
  if (config.learning_rate < Schedule::kFloor)
    log.warning("the learning rate is below the schedule's floor and will rise to 1e-07");
  else if (schedule.rises_below_start())
    log.warning(
        "the learning rate is below 0.0001, where warm-up begins: warm-up will lower it, not raise "
        "it");
  if (config.num_warmup_steps >= config.epochs)
    log.warning("warm-up takes all epochs: the learning rate never reaches its peak");
}

void report_closing(const TrainConfig& config, const TrainingRecord& record,
                    const ClosingFacts& facts, Log& log) {
  double images = 0, seconds = 0;
  for (const EpochRecord& epoch : record.epochs) {
    images += static_cast<double>(epoch.train.count);
    seconds += epoch.train_seconds;
  }
  const auto saved =
      std::find_if(record.epochs.begin(), record.epochs.end(),
                   [&](const EpochRecord& epoch) { return epoch.epoch == record.saved_epoch; });
  log.info("");
  log.info("result");
  log.info(text("  saved epoch       %d of %zu", record.saved_epoch, record.epochs.size()) +
           (record.stopped_early.empty() ? "" : " (stopped early: " + record.stopped_early + ")"));
  log.info(text("  top-1 accuracy    %.5f", saved->valid.top1_accuracy()));
  log.info(text("  top-5 accuracy    %.5f", saved->valid.top5_accuracy()));
  log.info(text("  validation loss   %.5f", saved->valid.loss()));
  log.info(text("  images/s          %.1f", seconds > 0 ? images / seconds : 0));
  log.info("  total time        " + duration_text(record.total_seconds) +
           text(" (first step after %.2f s)", record.start_to_first_step_seconds));
  log.info("  peak memory       " + bytes_text(record.peak_memory_bytes) +
           (facts.peak_device_bytes > 0 ? ", GPU " + bytes_text(facts.peak_device_bytes) : ""));
  log.info(text("  bad images        %d training, %d validation; damaged but used: %d, %d",
                facts.train_faults.num_bad(), facts.valid_faults.num_bad(),
                facts.train_faults.num_damaged(), facts.valid_faults.num_damaged()));
  log.info("  model             " + config.trained_model_path);
}

}  // namespace kiln
