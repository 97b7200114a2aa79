#include "run/training_run.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"
#include "predict/pictures.h"
#include "run/checkpoint/image_hashes.h"
#include "run/epoch.h"
#include "run/frozen/frozen_run.h"
#include "run/kept_model.h"
#include "run/prepare/prepare.h"
#include "run/saved_features.h"
#include "train/tensor_memory.h"

namespace kiln {
namespace {

// Which epoch is kept: "the one with the highest top-1".
std::string kept_text(const Job& job) {
  const OptimizationConfig& rule = job.config.optimization;
  if (job.plan.is_automatic) return "the one --auto chose";
  if (rule.save == SaveChoice::kLast) return "the last one";
  if (rule.best_by == BestBy::kLoss) return "the one with the lowest validation loss";
  if (rule.best_by == BestBy::kMap) return "the one with the highest mean average precision";
  if (rule.best_by == BestBy::kMacroF1) return "the one with the highest macro F1";
  return rule.best_by == BestBy::kMacroRecall ? "the one with the highest macro recall"
                                              : "the one with the highest top-1";
}

// The first steps show how long the run takes, unless a time limit decides that.
void forecast(Run& run) {
  if (run.plan.uses_features || run.stop->has_time_limit()) return;
  const PixelPlan& pixels = run.plan.pixels;
  const Length& length = run.plan.stop.length;
  std::vector<double> steps;
  for (int epoch = 1; epoch <= run.stop->last_epoch(); ++epoch) {
    const bool is_of_schedule = epoch > length.first_epochs;
    steps.push_back(is_of_schedule ? static_cast<double>(length.steps_of(epoch)) : 0);
  }
  run.log.forecast({.epoch_steps = std::move(steps),
                    .steps = length.steps,
                    .images_per_step = run.plan.global_batch,
                    .valid_images = static_cast<long long>(run.num_valid_images()),
                    .valid_pixels = static_cast<double>(pixels.valid.output.num_pixels()) /
                                    static_cast<double>(pixels.train.output.num_pixels())});
}

// The last checkpoint and the model. Returns the exit code.
int finish(Run& run) {
  record_automatic(run);
  if (run.world.leads() && !run.config.output.no_pictures) warn_without_pictures(run.console);
  if (run.trace) run.trace->finish();
  warn_of_changed_images(run.world, run.console, run.sources);  // of an epoch that did not end
  const Plan& plan = run.plan;
  const bool can_resume = run.config.checkpoint.is_lasting() && !plan.uses_features &&
                          (!plan.is_automatic || run.state->progress.automatic);
  if (const std::string reason = run.stop->early_reason(); !reason.empty())
    run.log.stopped_early(reason, run.stop->early_text(kept_text(run), can_resume));
  run.world.enter("writing the last checkpoint", /*patient=*/true);
  run.checkpoints->finish(run.stop->finished_reason());
  run.checkpoints.reset();
  std::string features = features_of_saved(run);
  std::string training_features = training_features_of_saved(run);
  run.world.enter("saving", /*patient=*/true);
  run.world.agree([&] { save(run, std::move(features), std::move(training_features)); });
  return run.stop->exit_code();
}

}  // namespace

int run_training(const TrainConfig& config, Process& process) {
  end_on_stop_signals();  // until there is something to save
  keep_freed_memory();
  keep_tensor_memory();
  // It must outlive the catch block, since collectives on its members may be in flight.
  const std::unique_ptr<Run> run = prepare(config, process.world, process.log);
  if (!run) return 0;
  // What is printed at the end of an epoch, in report/console.cpp's words: judge_epoch() says what
  // the figures hide and which images changed, log.epoch() the line of figures (figures_of()) and,
  // when due, skipped steps and the forecast, disk_space a lack of space, end_epoch() the plan of
  // --time-limit. Checkpoints begin in train_epoch() after a step, in end_epoch(), in
  // fit_head_first() and in finish().
  try {
    begin(*run);
    fit_head_first(*run);
    forecast(*run);
    while (const std::optional<int> epoch = run->stop->next_epoch()) {
      run->checkpoints->keep_best();
      EpochRecord record = train_epoch(*run, *epoch);
      if (run->stop->now()) break;
      const std::optional<ValidationDetails> kept = judge_epoch(*run, record);
      if (run->stop->now()) break;
      run->log.epoch(record, kept ? &*kept : nullptr);
      if (run->world.leads()) run->disk_space->watch();
      end_epoch(*run, record);
    }
    return finish(*run);
  } catch (...) {
    const std::exception_ptr failure = run->log.advised(std::current_exception());
    run->log.failed(failure);
    report_exception(failure, process);  // while all that may wait for the GPU still exists
    std::rethrow_exception(failure);
  }
}

}  // namespace kiln
