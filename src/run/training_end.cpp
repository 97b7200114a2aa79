#include "run/training_end.h"

#include "base/text.h"

namespace kiln {
namespace {

// "the one with the highest top-1".
std::string kept_text(const TrainingJob& job) {
  const OptimizationConfig& config = job.config.optimization;
  if (job.is_automatic) return "the one --auto chose";
  if (config.save == SaveChoice::kLast) return "the last one";
  if (config.best_by == BestBy::kLoss) return "the one with the lowest validation loss";
  return config.best_by == BestBy::kMacroRecall ? "the one with the highest macro recall"
                                                : "the one with the highest top-1";
}

// Says what ended training and which epoch is kept (by --save and --best-by).
std::string patience_text(const TrainingJob& job, const TrainState& state) {
  const int patience = job.config.optimization.patience;
  return formatted("The validation loss was not below the previous epoch's for %d %s; epoch %d, ",
                   patience, patience == 1 ? "epoch" : "consecutive epochs",
                   state.progress.best.epoch) +
         kept_text(job) + ", is kept.";
}

}  // namespace

std::string TrainingEnd::early_reason() const {
  if (signal != 0) return "signal";
  return out_of_patience ? "patience" : out_of_time ? "time-limit" : "";
}

std::string TrainingEnd::finished_reason() const {
  if (signal != 0) return "";
  const std::string early = early_reason();
  return early.empty() ? "epochs" : early;
}

bool has_more_to_train(const TrainingJob& job, const TrainState& state, const TimeLimit& limit) {
  if (state.progress.epochs_done >= job.last_epoch()) return false;
  if (state.progress.early_stopping.exhausted()) return false;
  return !limit.is_over() || state.progress.best.epoch == 0 || state.epoch.steps > 0;
}

TrainingEnd end_of_training(const TrainingJob& job, const TrainState& state,
                            const TimeLimit& limit) {
  if (state.progress.early_stopping.exhausted() && state.progress.epochs_done < job.last_epoch())
    return {.out_of_patience = true};
  return {.out_of_time = limit.has_ended_training()};
}

void log_early_end(const TrainingEnd& end, const TrainingJob& job, const TrainState& state,
                   const TimeLimit& limit, RunLogger& log) {
  const bool starts_over = job.config.checkpoint.path.empty() || job.uses_features ||
                           (job.is_automatic && !state.progress.automatic);
  if (end.signal != 0)
    log.stopped_early(end.early_reason(),
                      "Stopped by signal " + std::to_string(end.signal) + "." +
                          (starts_over ? "" : " Run the same command to resume."));
  if (end.out_of_patience)
    log.stopped_early(end.early_reason(), "Stopped early. " + patience_text(job, state));
  if (end.out_of_time) log.stopped_early(end.early_reason(), limit.end_text());
}

}  // namespace kiln
