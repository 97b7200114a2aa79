#include "run/run_logger.h"

#include <ATen/Parallel.h>
#include <unistd.h>
#include <algorithm>
#include <filesystem>

#include "record/picture_file.h"
#include "record/run_file.h"
#include "record/run_summary.h"
#include "report/console.h"
#include "report/error_info.h"
#include "report/mlflow/mlflow_sink.h"
#include "report/page/page.h"
#include "report/sinks.h"

namespace fs = std::filesystem;

namespace kiln {

double CpuMeter::take_share(int num_threads) {
  const double used = processor_seconds() - processor_begin_, wall = watch_.seconds();
  *this = {};
  return wall > 0 ? std::min(1.0, used / (wall * num_threads)) : 0;
}

void add_run_sinks(const OutputConfig& config, const std::function<std::string()>& repeat,
                   RunReporter& reporter) {
  const fs::path folder = config.log_path;
  if (::access(folder.c_str(), W_OK) == 0) {  // else it was warned about
    reporter.add([&] { return make_run_file(folder / kRunFileName); }, folder);
    if (repeat)
      reporter.add([&] { return make_repeat_file(folder / kRepeatName, repeat); }, folder);
    reporter.add([&] { return make_epochs_csv(folder / kEpochsFileName); }, folder);
    reporter.add([&] { return make_tensorboard(folder / "tensorboard"); }, folder);
    reporter.add([&] { return make_html_report(folder / kReportName, reporter.run()); }, folder);
  }
  if (!config.kfp_executor_input.empty())
    reporter.add([&] { return make_kfp_artifact(config.kfp_executor_input); });
  if (const std::optional<MlflowSettings> settings = mlflow_settings_of_environment())
    reporter.add([&] {
      return std::make_unique<MlflowSink>(*settings, std::vector{folder / kReportName},
                                          config.mlflow_pictures, reporter.log());
    });
}

void RunLogger::start(RunStart start, const std::vector<std::string>& warnings) {
  add_sinks(warnings);
  reporter_.start(std::move(start));
  cpu_ = {};
}

void RunLogger::resume(RunStart start, const std::vector<std::string>& warnings, Interruption stop,
                       const std::string& record) {
  if (!leads_ && record.empty()) return this->start(std::move(start), warnings);
  const double first_start = parse_run(record).start.time;
  const fs::path logs = config_.log_path;
  if (leads_) add_lost_work(find_record(logs / kRunFileName, first_start), &stop);
  add_sinks(warnings);
  reporter_.resume(std::move(start), record, stop, logs / kPicturesName);
  const RunEnd& so_far = reporter_.run().end;
  end_.saved_epoch = so_far.saved_epoch;
  end_.start_to_first_step_seconds = so_far.start_to_first_step_seconds;
  end_.peak_memory_bytes = so_far.peak_memory_bytes;
  end_.peak_device_bytes = so_far.peak_device_bytes;
  clock_.seconds_before = so_far.total_seconds + stop.lost_seconds;
  cpu_ = {};
}

std::string RunLogger::record_text() const {
  return reporter_.record_text() + usage_line(end_so_far());
}

void RunLogger::add_sinks(const std::vector<std::string>& warnings) {
  if (leads_)
    add_run_sinks(
        config_, [this] { return repeat_text(settings_, why_not_equal_); }, reporter_);
  reporter_.add([&] { return make_console(log_, fs::path(config_.log_path) / kReportName); });
  for (const std::string& warning : warnings)
    leads_ ? log_.warning(warning) : log_.info("warning: " + warning);
}

void RunLogger::planned(PlannedLength length) {
  length.time = unix_seconds();
  reporter_.planned(length);
}

void RunLogger::step(StepRecord record) {
  record.time = unix_seconds();
  if (!leads_) return;
  record.seconds_left = seconds_left(record);
  reporter_.step(record);
  if (forecast_) log_forecast(forecast_->after_step(record));
}

void RunLogger::forecast(RunLength run) {
  run.price_per_hour = price_per_hour(reporter_.run().start);
  run.seconds_before = clock_.seconds_before;
  run.peak_memory = [this] { return peak_memory_text(end_so_far()); };
  forecast_.emplace(std::move(run));
}

void RunLogger::log_forecast(const std::optional<ForecastText>& forecast) {
  if (!forecast) return;
  log_.info(forecast->line);
  if (!forecast->warning.empty()) log_.warning(forecast->warning);
}

void RunLogger::progress(const StepRecord& timing) {
  if (end_.start_to_first_step_seconds == 0)
    end_.start_to_first_step_seconds = seconds_since_process_start();
  if (memory_)
    if (const std::string text = memory_->after_step(); !text.empty())
      leads_ ? log_.warning(text) : log_.info("warning: " + text);
  StepRecord shown = timing;
  shown.seconds_left = seconds_left(timing);
  reporter_.progress(shown);
}

double RunLogger::seconds_left(const StepRecord& timing) const {
  const double left = forecast_ ? forecast_->seconds_left(timing) : seconds_of_steps_left(timing);
  if (time_limit_s_ == 0) return left;
  return std::min(left, std::max(0.0, time_limit_s_ - clock_.seconds_used()));
}

void RunLogger::validating(int epoch, int step, int num_steps) {
  reporter_.validating({.epoch = epoch,
                        .num_epochs = reporter_.run().start.num_epochs,
                        .step = step,
                        .num_steps = num_steps});
}

void RunLogger::epoch(EpochRecord record, const ValidationDetails* details) {
  record.time = unix_seconds();
  const RunEnd so_far = end_so_far();
  record.peak_memory_bytes = so_far.peak_memory_bytes;
  record.peak_device_bytes = so_far.peak_device_bytes;
  record.gpu = load_ ? std::exchange(load_, {}) : gpu_meter_.take_average();
  if (!device_.is_cuda) record.cpu_share = cpu_.take_share(at::get_num_threads());
  if (details != nullptr) end_.saved_epoch = record.epoch;
  if (leads_ && !std::exchange(has_epoch_, true)) predecessor_.keep_logs(started(), log_);
  reporter_.epoch(record, details);
  if (leads_ && forecast_) log_forecast(forecast_->after_epoch(record));
}

void RunLogger::stopped_early(const std::string& reason, const std::string& line) {
  end_.stopped_early = reason;
  log_.info(line);
}

void RunLogger::saving(std::vector<ImageFaultRecord> image_faults, std::string validation_images) {
  end_.image_faults = std::move(image_faults);
  end_.validation_fingerprint = std::move(validation_images);
}

std::string RunLogger::training_json() const {
  return format_training_json(reporter_.run(), end_so_far());
}

void RunLogger::saved() {
  end_.model_path = config_.trained_model_path;
  end_.replaced = predecessor_.beside(training_json());
  end(end_.stopped_early == "signal" ? RunStatus::kStopped : RunStatus::kFinished);
}

void RunLogger::nothing_saved(const std::string& why) {
  log_.info(why + ", so no model is written.");
  end(RunStatus::kStopped);
}

void RunLogger::failed(const std::exception_ptr& failure) {
  end_.failure = report_failure(failure).messages.front();
  end(RunStatus::kFailed);
}

void RunLogger::end(RunStatus status) {
  end_ = end_so_far();
  end_.status = status;
  end_.time = unix_seconds();
  reporter_.end(end_);
}

RunEnd RunLogger::end_so_far() const {
  RunEnd end = end_;
  end.peak_memory_bytes = std::max<long long>(end.peak_memory_bytes, peak_memory_bytes());
  end.peak_device_bytes = std::max<long long>(end.peak_device_bytes, peak_device_memory(device_));
  end.total_seconds = clock_.seconds_used();
  return end;
}

}  // namespace kiln
