#include "run/training_report.h"

#include <filesystem>

#include "base/text.h"
#include "report/html_page.h"
#include "report/lines.h"
#include "report/run_summary.h"
#include "train/schedule.h"

namespace kiln {
namespace {

std::string describe_set(const ImageSet& set) {
  return grouped(static_cast<long long>(set.items.size())) + " images, " +
         std::to_string(set.classes.size()) + (set.classes.size() == 1 ? " class" : " classes") +
         " (" + describe(set.kind) + " '" + set.root.string() + "')";
}

// Every rank could say it: one does on the console, the others in their own logs.
void warn(const PlanFacts& facts, const std::string& text, Log& log) {
  if (facts.rank == 0)
    log.warning(text);
  else
    log.info("warning: " + text);
}

void report_empty_classes(const ImageSet& set, const std::string& name, const PlanFacts& facts,
                          Log& log) {
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  std::string empty;
  for (std::size_t c = 0; c < counts.size(); ++c)
    if (counts[c] == 0) empty += (empty.empty() ? "'" : ", '") + set.classes[c] + "'";
  if (!empty.empty()) warn(facts, "no " + name + " image has the class " + empty, log);
}

std::string size_text(const PixelPlan& pixels) {
  return formatted("%dx%d", pixels.output.width, pixels.output.height);
}

std::string centre_text(const PixelPlan& pixels) {
  return formatted("short side to %d, centre cut", pixels.short_side);
}

void report_data(const TrainingInputs& inputs, const PlanFacts& facts, Log& log) {
  log.info("training data:    " + describe_set(inputs.train));
  log.info("validation data:  " + describe_set(inputs.valid));
  for (const std::string& note : inputs.notes) warn(facts, note, log);
  for (const ImageSet* set : {&inputs.train, &inputs.valid})
    for (const std::string& note : set->notes) warn(facts, note, log);
  report_empty_classes(inputs.train, "training", facts, log);
  if (inputs.train.classes.size() == 1)
    warn(facts,
         "there is only one class: every answer will be right, and the model will have learned "
         "nothing",
         log);
  const bool centred =
      inputs.pixels.augment == Augment::kNone || inputs.pixels.augment == Augment::kFlip;
  const PixelPlan &train = inputs.pixels, &valid = inputs.valid_pixels;
  log.info("image size:       " + size_text(train) + " (" + inputs.size_reason +
           (centred && train.short_side > 0 ? "; other sizes: " + centre_text(train) : "") + ")");
  if (valid.output != train.output || valid.short_side != (centred ? train.short_side : 0))
    log.info("validation size:  " + size_text(valid) + " (" + centre_text(valid) + ")");
}

// Empty for none.
std::string augment_text(Augment augment) {
  switch (augment) {
    case Augment::kNone:
      return "";
    case Augment::kFlip:
      return "flip (training images are mirrored half the time)";
    case Augment::kStandard:
      return "standard (random resized crop, flip)";
    case Augment::kStrong:
      return "strong (random resized crop, flip, TrivialAugmentWide, random erasing)";
  }
  return "";
}

}  // namespace

void report_plan(const TrainConfig& config, const TrainingInputs& inputs, const PlanFacts& facts,
                 Log& log) {
  report_data(inputs, facts, log);
  if (inputs.pixels.augment != Augment::kNone)
    log.info("augmentation:     " + augment_text(inputs.pixels.augment));
  const ModelSpec& spec = inputs.untrained.spec;
  log.info("model:            " + spec.model_name + ", " + grouped(facts.num_parameters) +
           " parameters, " +
           (spec.pretrained ? "pretrained weights" : "fresh weights from the seed"));
  log.info("normalization:    " + inputs.normalization_name);
  log.info("device:           " + facts.device +
           formatted(", float32, %d compute and %d loader threads", facts.threads,
                     facts.loader_threads) +
           (facts.num_ranks == 1 ? ", 1 rank" : ""));
  log.info("loading:          " + bytes_text(facts.most_loader_bytes) +
           " of memory at most; kept between epochs: " + facts.cache);
  const double rate =
      config.optimization.learning_rate * config.optimization.lr_scaling.of(facts.num_ranks);
  const auto global_batch =
      static_cast<std::size_t>(config.optimization.batch_size) *
      static_cast<std::size_t>(facts.num_ranks * config.optimization.accumulate);
  if (facts.num_ranks > 1)
    log.info("ranks:            " + facts.ranks +
             formatted("; a global batch of %zu images, learning rate %g x %g = %g", global_batch,
                       config.optimization.learning_rate, rate / config.optimization.learning_rate,
                       rate));
  log.info(formatted(
      "plan:             %d epochs of %zu steps of %zu images, learning rate %g, warm-up %d "
      "epochs, "
      "patience %d, seed %lld",
      config.optimization.epochs, static_cast<std::size_t>(inputs.steps_per_epoch), global_batch,
      rate, config.optimization.num_warmup_steps, config.optimization.patience,
      static_cast<long long>(config.optimization.random_seed)));
  const Schedule schedule{config.optimization.epochs, config.optimization.num_warmup_steps, rate};
  if (rate < Schedule::kFloor)
    warn(facts, "the learning rate is below the schedule's floor and will rise to 1e-07", log);
  else if (schedule.rises_below_start())
    warn(
        facts,
        "the learning rate is below 0.0001, where warm-up begins: warm-up will lower it, not raise "
        "it",
        log);
  if (config.optimization.num_warmup_steps >= config.optimization.epochs)
    warn(facts, "warm-up takes all epochs: the learning rate never reaches its peak", log);
}

void report_closing(const TrainConfig& config, const RunReporter& reporter,
                    const ClosingFacts& facts, Log& log) {
  const RunRecord& record = reporter.run();
  const RunEnd& end = record.end;
  const Totals& valid = kept_epoch(record)->valid;
  log.info("");
  for (const std::string& row : epoch_table(record.epochs, end.saved_epoch)) log.info(row);
  log.info("");
  log.info("result");
  log.info(formatted("  saved epoch       %d of %zu", end.saved_epoch, record.epochs.size()) +
           (end.stopped_early.empty() ? "" : " (stopped early: " + end.stopped_early + ")"));
  log.info(formatted("  top-1 accuracy    %.5f", valid.top1_accuracy()));
  log.info(formatted("  top-5 accuracy    %.5f", valid.top5_accuracy()));
  log.info(formatted("  validation loss   %.5f", valid.loss()));
  log.info(formatted("  images/s          %.1f", summary_of(record).images_per_second));
  if (config.data.augment != Augment::kNone)
    log.info("  augmentation      " + augment_name(config.data.augment));
  log.info("  total time        " + duration_text(end.total_seconds) +
           formatted(" (first step after %.2f s)", end.start_to_first_step_seconds));
  log.info("  peak memory       " + bytes_text(end.peak_memory_bytes) +
           (end.peak_device_bytes > 0 ? ", GPU " + bytes_text(end.peak_device_bytes) : ""));
  log.info(formatted("  bad images        %d training, %d validation; damaged but used: %d, %d",
                     facts.train_faults.num_bad(), facts.valid_faults.num_bad(),
                     facts.train_faults.num_damaged(), facts.valid_faults.num_damaged()));
  log.info("  model             " + config.output.trained_model_path);
  if (reporter.has_all(kReportName))
    log.info("  report            " +
             (std::filesystem::path(config.output.log_path) / kReportName).string());
  for (const std::string& loss : reporter.losses()) log.info("  lost              " + loss);
}

}  // namespace kiln
