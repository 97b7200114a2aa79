#include "tools/commands.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "data/dataset/listing.h"
#include "record/run_file.h"
#include "record/run_summary.h"
#include "report/console.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kBetweenLooks{300};
constexpr double kQuietSeconds = 60;
// Looking for the writer locks the record for a moment, in which a run that begins could not lock
// it. So only one look in several does.
constexpr int kLooksPerLock = 7;

// How long a run has written nothing. When first seen, this is judged by the run's own timestamps;
// after that by the time that passes here, so that differing clocks do not matter.
class Silence {
 public:
  explicit Silence(const RunRecord& run)
      : before_(run.start.time == 0 ? 0 : unix_seconds() - last_time(run)) {}
  void heard() { *this = Silence({}); }
  double seconds() const { return before_ + since_.seconds(); }

 private:
  double before_;
  Stopwatch since_;
};

// Prints new events of the followed run on the console, as the run itself does.
class Watcher {
 public:
  explicit Watcher(Log& log) : log_(log), console_(make_console(log, {})) {}

  void tell(const RunRecord& run, double quiet) {
    if (run.start.time != shown_start_) show_start(run.start);
    if (run.start.num_epochs != shown_length_) {  // it has been decided in the meantime
      shown_length_ = run.start.num_epochs;
      for (const auto& [label, text] : run.start.plan)
        if (label == kTimeLimitLabel)
          console_->planned({.num_epochs = shown_length_, .reason = text});
    }
    if (run.interruptions.size() > shown_interruptions_) {
      // The record was truncated, so the epochs that follow are shown again.
      shown_interruptions_ = run.interruptions.size();
      shown_epochs_ = std::min(shown_epochs_, run.epochs.size());
      shown_warnings_ = std::min(shown_warnings_, run.warnings.size());
      log_.info("resumed at " + resume_text(run.interruptions.back()));
    }
    for (; shown_warnings_ < run.warnings.size(); ++shown_warnings_)
      log_.info("warning: " + run.warnings[shown_warnings_]);
    for (; shown_epochs_ < run.epochs.size(); ++shown_epochs_)
      console_->epoch(run.epochs[shown_epochs_], nullptr);
    if (run.end.status == RunStatus::kRunning && !run.steps.empty()) show_step(run, quiet);
  }

  void log_end(const RunRecord& run) {
    if (run.end.status == RunStatus::kRunning) return;
    console_->end(run);
    log_.info(status_text(run.end) + " after " + duration_text(run.end.total_seconds) +
              (run.end.failure.empty() ? "" : ": " + run.end.failure));
  }

 private:
  void show_start(const RunStart& start) {
    shown_start_ = start.time;
    shown_epochs_ = shown_warnings_ = shown_interruptions_ = 0;
    shown_length_ = start.num_epochs;
    log_.info(run_title(start) + ", " + plural(start.num_epochs, "epoch", "epochs"));
    console_->start(start);
  }

  // The record of a long run has a step every few minutes.
  void show_step(const RunRecord& run, double quiet) {
    const StepRecord& step = run.steps.back();
    const double gap = step.time - run.steps[std::max<std::size_t>(run.steps.size(), 2) - 2].time;
    if (quiet > std::max(kQuietSeconds, 2 * gap))
      log_.progress("no update for " + duration_text(quiet) + "; last seen in epoch " +
                    std::to_string(step.epoch) + ", step " + std::to_string(step.step));
    else
      console_->progress(step);
  }

  Log& log_;
  std::unique_ptr<RunSink> console_;
  double shown_start_ = 0;
  int shown_length_ = 0;
  std::size_t shown_epochs_ = 0, shown_warnings_ = 0, shown_interruptions_ = 0;
};

// Whether one of the first entries in the folder or below is an image.
bool holds_images(const fs::path& folder) {
  constexpr int kLooks = 100;
  std::error_code fault;
  fs::recursive_directory_iterator entry(folder, fault);
  for (int look = 0; !fault && entry != fs::end(entry) && look < kLooks; ++look) {
    if (has_image_extension(entry->path().filename().string())) return true;
    entry.increment(fault);
  }
  return false;
}

// The record of a run that may not have begun. Throws Error if neither its folder nor that folder's
// parent exists, or if the folder holds images instead.
fs::path record_to_await(const fs::path& log_path) {
  const bool is_record = is_there(log_path) || log_path.filename() == kRunFileName;
  const fs::path record = is_record ? record_of(log_path) : log_path / kRunFileName;
  const fs::path folder = record.parent_path().empty() ? "." : record.parent_path();
  const fs::path above = folder.parent_path().empty() ? "." : folder.parent_path();
  std::error_code fault;
  const bool may_come =
      fs::symlink_status(folder, fault).type() == fs::file_type::not_found && is_folder(above);
  if (!is_folder(folder) && !may_come)
    throw Error(ErrorCode::kUserError,
                "There is no folder '" + folder.string() +
                    "', and its parent does not exist either: give the --log-path of a run." +
                    did_you_mean_path(folder));
  if (!is_there(record) && holds_images(folder))
    throw Error(ErrorCode::kUserError, "'" + folder.string() +
                                           "' is a folder of images: give the --log-path of a "
                                           "run.");
  return record;
}

// The process that writes the record, as far as this host can know.
enum class Writer { kUnknown, kAlive, kGone };

Writer writer_of(const RunRecord& run, const fs::path& record) {
  if (run.start.host != host_name()) return Writer::kUnknown;
  if (AppendedFile::is_abandoned(record)) return Writer::kGone;
  return AppendedFile::is_in_use(record) ? Writer::kAlive : Writer::kUnknown;
}

// Throws Error if no more updates can be expected.
void require_life(const RunRecord& run, Writer writer, const fs::path& record, double quiet) {
  const bool is_silent = writer == Writer::kUnknown && quiet > plausible_silence(run);
  if (writer != Writer::kGone && !is_silent) return;
  std::string text = "No update for " + duration_text(quiet);
  if (!run.steps.empty())
    text +=
        formatted(" (steps took %.2g s; the last was step %d of epoch %d)",
                  run.steps.back().batch_seconds, run.steps.back().step, run.steps.back().epoch);
  if (writer == Writer::kGone)
    text += ", and no process is writing to '" + record.string() + "' anymore";
  throw Error(ErrorCode::kFailedToCompleteOperation, text + ": the run was probably killed.");
}

void follow(RunFollower& follower, const fs::path& record, Watcher& watcher) {
  const RunRecord& run = follower.run();
  Silence silence(run);
  Writer writer = Writer::kUnknown;
  for (int look = 0; run.end.status == RunStatus::kRunning && stop_signal() == 0; ++look) {
    if (follower.has_begun()) {
      watcher.tell(run, silence.seconds());
      if (look % kLooksPerLock == 0) writer = writer_of(run, record);
    }
    // Must come after looking for the writer, whose last act may have been to end the record.
    if (follower.read_news()) {
      writer = Writer::kUnknown;
      silence.heard();
    } else if (follower.has_begun()) {
      require_life(run, writer, record, silence.seconds());
    }
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace

int run(const WatchConfig& config, Process& process) {
  Log& log = process.log;
  const fs::path record = record_to_await(config.log_path);
  install_stop_signals();
  RunFollower follower(record);
  Watcher watcher(log);
  follower.read_news();
  if (!follower.has_begun()) log.info("waiting for a run that writes '" + record.string() + "'");
  follow(follower, record, watcher);
  if (follower.has_begun()) watcher.tell(follower.run(), /*quiet=*/0);
  watcher.log_end(follower.run());
  if (const int signal = stop_signal(); signal != 0) return 128 + signal;
  return follower.run().end.status == RunStatus::kFailed
             ? exit_code(ErrorCode::kFailedToCompleteOperation)
             : 0;
}

}  // namespace kiln
