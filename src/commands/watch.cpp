#include "commands/commands.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "report/record/run_file.h"
#include "report/record/run_summary.h"
#include "report/sinks/sinks.h"

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{300};
constexpr double kQuietSeconds = 60;

// Prints new events of the followed run on the console, as the run itself does.
class Watcher {
 public:
  explicit Watcher(Log& log) : log_(log), console_(make_console(log, {})) {}

  void tell(const RunRecord& run) {
    if (run.start.time != shown_start_) show_start(run.start);
    for (; shown_warnings_ < run.warnings.size(); ++shown_warnings_)
      log_.info("warning: " + run.warnings[shown_warnings_]);
    for (; shown_epochs_ < run.epochs.size(); ++shown_epochs_)
      console_->epoch(run.epochs[shown_epochs_], nullptr);
    if (run.end.status == RunStatus::kRunning && !run.steps.empty()) show_step(run.steps.back());
  }

  void tell_end(const RunRecord& run) {
    if (run.end.status == RunStatus::kRunning) return;
    console_->end(run);
    log_.info(status_text(run.end) + " after " + duration_text(run.end.total_seconds) +
              (run.end.failure.empty() ? "" : ": " + run.end.failure));
  }

 private:
  void show_start(const RunStart& start) {
    shown_start_ = start.time;
    shown_epochs_ = shown_warnings_ = 0;
    log_.info(run_title(start) + ", " + std::to_string(start.num_epochs) + " epochs");
    console_->start(start);
  }

  void show_step(const StepRecord& step) {
    const double quiet = unix_seconds() - step.time;
    if (quiet > kQuietSeconds)
      log_.progress("no update for " + duration_text(quiet) + "; last seen in epoch " +
                    std::to_string(step.epoch) + ", step " + std::to_string(step.step));
    else
      console_->progress(step);
  }

  Log& log_;
  std::unique_ptr<RunSink> console_;
  double shown_start_ = 0;
  std::size_t shown_epochs_ = 0, shown_warnings_ = 0;
};

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
    log.info("waiting for '" + record.string() + "', which a run creates first");
  while (follower.run().end.status == RunStatus::kRunning && stop_signal() == 0) {
    if (follower.has_begun()) watcher.tell(follower.run());
    std::this_thread::sleep_for(kBetweenLooks);
    follower.read_news();
  }
  if (follower.has_begun()) watcher.tell(follower.run());
  watcher.tell_end(follower.run());
  return 0;
}

}  // namespace kiln
