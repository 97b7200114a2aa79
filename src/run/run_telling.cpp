#include "run/run_telling.h"

#include <utility>

#include "base/machine.h"
#include "base/terminal.h"
#include "report/error_info.h"
#include "run/run_sinks.h"

namespace kiln {
namespace {

constexpr std::chrono::milliseconds kBetweenLiveLines{100};

}  // namespace

RunTelling::RunTelling(const TrainConfig& config, bool leads, const Device& device, Log& log)
    : config_(config),
      device_(device),
      log_(log),
      leads_(leads),
      gpu_meter_(leads ? device.uuid : ""),
      reporter_(log) {
  live_.utf8 = locale_is_utf8();
}

void RunTelling::start(RunStart start) {
  if (leads_) add_run_sinks(config_, &reporter_);
  reporter_.start(std::move(start));
}

void RunTelling::step(StepRecord record) {
  record.time = unix_seconds();
  live_.loss = record.so_far.loss();
  live_.top1 = record.so_far.top1_accuracy();
  gpu_meter_.sample();
  if (!leads_) return;
  log_.detail(iteration_line(record));
  reporter_.step(record);
}

void RunTelling::progress(const StepRecord& timing) {
  if (end_.start_to_first_step_seconds == 0)
    end_.start_to_first_step_seconds = seconds_since_process_start();
  if (may_redraw()) log_.progress(progress_line(timing, live_));
}

void RunTelling::validating(int epoch, int step, int num_steps) {
  StepRecord at;
  at.epoch = epoch;
  at.num_epochs = config_.optimization.epochs;
  at.step = step;
  at.num_steps = num_steps;
  if (may_redraw()) log_.progress(validation_line(at, live_));
}

bool RunTelling::may_redraw() {
  const auto now = std::chrono::steady_clock::now();
  if (!log_.on_terminal() || now - shown_ < kBetweenLiveLines) return false;
  shown_ = now;
  live_.columns = live_columns();
  return true;
}

void RunTelling::epoch(EpochRecord record, const Judgement* judgement) {
  record.time = unix_seconds();
  record.peak_memory_bytes = peak_memory_bytes();
  record.peak_device_bytes = peak_device_memory(device_);
  record.gpu = gpu_meter_.take_average();
  if (judgement != nullptr) end_.saved_epoch = record.epoch;
  log_.detail(epoch_line(record));
  log_.detail(rates_line(record));
  if (log_.on_terminal()) log_.info(epoch_news(record));
  reporter_.epoch(record, judgement);
}

void RunTelling::stopped_early(const std::string& why, const std::string& line) {
  end_.stopped_early = why;
  log_.info(line);
}

void RunTelling::saving(std::vector<ImageFaultRecord> image_faults) {
  end_.image_faults = std::move(image_faults);
  note_usage();
}

void RunTelling::saved(const std::string& model_path) {
  end_.model_path = model_path;
  end(end_.stopped_early == "signal" ? RunStatus::kStopped : RunStatus::kFinished);
}

void RunTelling::nothing_saved() {
  log_.info("No epoch was finished: no model is written.");
  end(RunStatus::kStopped);
  tell_losses();
}

void RunTelling::failed(const std::exception_ptr& failure) {
  end_.failure = report_failure(failure).messages.front();
  end(RunStatus::kFailed);
  tell_losses();
}

// Of a run without a closing block.
void RunTelling::tell_losses() {
  for (const std::string& loss : reporter_.losses()) log_.info("lost: " + loss);
}

void RunTelling::end(RunStatus status) {
  end_.status = status;
  end_.time = unix_seconds();
  note_usage();
  reporter_.end(end_);
}

void RunTelling::note_usage() {
  end_.peak_memory_bytes = peak_memory_bytes();
  end_.peak_device_bytes = peak_device_memory(device_);
  end_.total_seconds = seconds_since_process_start();
}

}  // namespace kiln
