#include "commands/watch.h"

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/machine.h"
#include "base/signals.h"
#include "base/terminal.h"
#include "report/lines.h"
#include "report/run_file.h"
#include "report/run_summary.h"

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{300};
constexpr double kQuietSeconds = 60;

// Says what a follower has found and has not been said yet.
class Watcher {
 public:
  explicit Watcher(Log& log) : log_(log) { live_.utf8 = locale_is_utf8(); }

  void tell(const RunRecord& run) {
    if (run.start.time != told_start_) tell_start(run);
    for (; told_warnings_ < run.warnings.size(); ++told_warnings_)
      log_.info("warning: " + run.warnings[told_warnings_]);
    for (; told_epochs_ < run.epochs.size(); ++told_epochs_)
      log_.info(epoch_table({run.epochs[told_epochs_]}, run.judgement.epoch).back());
    if (run.end.status == RunStatus::kRunning && !run.steps.empty()) tell_step(run.steps.back());
  }

 private:
  void tell_start(const RunRecord& run) {
    told_start_ = run.start.time;
    told_epochs_ = told_warnings_ = 0;
    log_.info(run.start.model + " on " + run.start.data.train_path + ", " +
              std::to_string(run.start.num_epochs) + " epochs; " + run.start.device);
    log_.info(epoch_table({}, 0).front());
  }

  void tell_step(const StepRecord& step) {
    live_.loss = step.so_far.loss();
    live_.top1 = step.so_far.top1_accuracy();
    live_.columns = live_columns();
    const double quiet = unix_seconds() - step.time;
    log_.progress(quiet > kQuietSeconds
                      ? "no news for " + duration_text(quiet) + "; the last was of epoch " +
                            std::to_string(step.epoch) + ", step " + std::to_string(step.step)
                      : progress_line(step, live_));
  }

  Log& log_;
  LiveLine live_;
  double told_start_ = 0;
  std::size_t told_epochs_ = 0, told_warnings_ = 0;
};

void tell_end(const RunEnd& end, Log& log) {
  if (end.status == RunStatus::kRunning) return;
  log.info(status_text(end) + " after " + duration_text(end.total_seconds) +
           (end.failure.empty() ? "" : ": " + end.failure));
  if (!end.model_path.empty())
    log.info("epoch " + std::to_string(end.saved_epoch) + " is saved in " + end.model_path);
}

}  // namespace

int run(const WatchConfig& config, Process& process) {
  Log& log = process.log;
  const std::filesystem::path record = record_of(config.log_path);
  std::error_code fault;
  if (record == config.log_path && !std::filesystem::exists(record, fault))
    throw Error(ErrorCode::kUserError,
                "There is no folder '" + config.log_path + "': give the --log-path of a run.");
  if (config.plain) log.speak_plainly();
  install_stop_signals();
  RunFollower follower(record);
  Watcher watcher(log);
  follower.read_news();
  if (!follower.has_begun())
    log.info("waiting for '" + record.string() + "', which a run begins with");
  while (follower.run().end.status == RunStatus::kRunning && stop_signal() == 0) {
    if (follower.has_begun()) watcher.tell(follower.run());
    std::this_thread::sleep_for(kBetweenLooks);
    follower.read_news();
  }
  if (follower.has_begun()) watcher.tell(follower.run());
  tell_end(follower.run().end, log);
  return 0;
}

}  // namespace kiln
