#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/system.h"
#include "record/metrics.h"
#include "report/event_records.h"
#include "report/sinks.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// Returns the event files beside `own`: those of other runs, which TensorBoard would show as part
// of this one, and those that this run wrote before it was interrupted.
std::vector<fs::path> other_files(const fs::path& own) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(own.parent_path()))
    if (is_event_file_name(entry.path().filename().string()) && entry.path() != own)
      files.push_back(entry.path());
  return files;
}

class Tensorboard : public RunSink {
 public:
  explicit Tensorboard(const fs::path& folder) : folder_(folder) {
    std::error_code fault;
    fs::create_directories(folder, fault);
    if (fault)
      throw std::runtime_error("The folder '" + folder.string() +
                               "' cannot be created: " + system_words(fault.value()) + ".");
  }

  std::string_view name() const override { return "TensorBoard"; }

  void start(const RunStart& start) override {
    if (path_.empty()) begin_file(start.time);
    classes_ = start.data.classes;
    file_->append(options_event(start.options, start.time));
  }

  // Starts a file whose name sorts after the old ones, which a running TensorBoard reads next. At a
  // START event with step 0 TensorBoard discards what it has read, and everything is written again.
  // The old files are emptied now and removed at the end or at the next resume, because TensorBoard
  // would never get past a file that disappeared while it was being read.
  void resume(const RunRecord& so_far) override {
    double time = so_far.interruptions.back().time;
    for (const fs::path& file : other_files(folder_ / "none")) {
      const double begun = event_file_time(file.filename().string());
      time = std::max(time, begun + 1);
      if (begun >= std::nearbyint(so_far.start.time)) old_files_.insert(file);
    }
    begin_file(time);
    file_->append(restart_event(time));
    RunSink::resume(so_far);
    for (const fs::path& file : old_files_)
      fs::file_size(file) == 0 ? void(fs::remove(file)) : fs::resize_file(file, 0);
  }

  void step(const StepRecord& step) override {
    file_->append(scalars_event(step_metrics(step), step.time, global_step(step)));
  }

  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override {
    if (!std::exchange(has_epoch_, true))
      for (const fs::path& earlier : other_files(path_))
        if (!old_files_.contains(earlier)) fs::remove(earlier);
    file_->append(scalars_event(epoch_metrics(epoch), epoch.time, epoch.epoch));
    if (details != nullptr)
      file_->append(pictures_event(*details, classes_, epoch.time, epoch.epoch));
  }

  void end(const RunRecord& run) override {
    file_->append(end_event(run.end.status != RunStatus::kFailed, run.end.time));
    for (const fs::path& file : old_files_) fs::remove(file);
    if (!has_epoch_ && !other_files(path_).empty()) fs::remove(path_);
  }

 private:
  void begin_file(double time) {
    path_ = folder_ / event_file_name(time);
    file_ = std::make_unique<AppendedFile>(path_);
    file_->append(first_event(time));
  }
  fs::path folder_, path_;
  std::set<fs::path> old_files_;  // written by this run before it was interrupted
  bool has_epoch_ = false;
  std::unique_ptr<AppendedFile> file_;
  std::vector<std::string> classes_;
};

}  // namespace

std::unique_ptr<RunSink> make_tensorboard(const std::filesystem::path& folder) {
  return std::make_unique<Tensorboard>(folder);
}

}  // namespace kiln
