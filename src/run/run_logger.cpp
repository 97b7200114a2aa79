#include "run/run_logger.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <utility>

#include "base/machine.h"
#include "report/appended_file.h"
#include "report/console.h"
#include "report/epochs_csv.h"
#include "report/error_info.h"
#include "report/html_page.h"
#include "report/kfp.h"
#include "report/mlflow_settings.h"
#include "report/mlflow_sink.h"
#include "report/run_file.h"
#include "report/tensorboard.h"
#include "report/training_json.h"

namespace kiln {
namespace {

void add_files(const std::filesystem::path& folder, RunReporter& reporter) {
  if (::access(folder.c_str(), W_OK) != 0) return;  // which has been warned of
  if (AppendedFile::is_in_use(folder / kRunFileName)) {
    reporter.add([&]() -> std::unique_ptr<RunSink> {
      throw std::runtime_error("Another run is writing its records to '" + folder.string() +
                               "', so this one keeps none, and no log file. Give each run a "
                               "--log-path of its own.");
    });
    return;
  }
  reporter.add([&] { return make_run_file(folder / kRunFileName); });
  reporter.add([&] { return make_epochs_csv(folder / kEpochsFileName); });
  reporter.add([&] { return make_tensorboard(folder / "tensorboard"); });
  reporter.add([&] { return make_html_report(folder / kReportName); });
}

}  // namespace

void add_run_sinks(const OutputConfig& config, RunReporter& reporter) {
  add_files(config.log_path, reporter);
  if (!config.kfp_executor_input.empty())
    reporter.add([&] { return make_kfp_artifact(config.kfp_executor_input); });
  if (!config.kfp_metrics.empty())
    reporter.add([&] { return make_kfp_metrics_file(config.kfp_metrics); });
  if (const std::optional<MlflowSettings> settings = mlflow_settings_of_environment())
    reporter.add([&] {
      const std::filesystem::path report = std::filesystem::path(config.log_path) / kReportName;
      return make_mlflow_sink(*settings, {{report}, config.mlflow_log_model}, reporter.log());
    });
}

RunLogger::RunLogger(const OutputConfig& config, bool leads, const Device& device, Log& log)
    : config_(config),
      device_(device),
      log_(log),
      leads_(leads),
      gpu_meter_(leads ? device.uuid : ""),
      reporter_(log) {}

void RunLogger::start(RunStart start, const std::vector<std::string>& warnings) {
  if (leads_) add_run_sinks(config_, reporter_);
  reporter_.add(
      [&] { return make_console(log_, std::filesystem::path(config_.log_path) / kReportName); });
  for (const std::string& warning : warnings)
    leads_ ? log_.warning(warning) : log_.info("warning: " + warning);
  reporter_.start(std::move(start));
}

void RunLogger::step(StepRecord record) {
  record.time = unix_seconds();
  gpu_meter_.sample();
  if (leads_) reporter_.step(record);
}

void RunLogger::progress(const StepRecord& timing) {
  if (end_.start_to_first_step_seconds == 0)
    end_.start_to_first_step_seconds = seconds_since_process_start();
  reporter_.progress(timing);
}

void RunLogger::validating(int epoch, int step, int num_steps) {
  StepRecord at;
  at.epoch = epoch;
  at.num_epochs = reporter_.run().start.num_epochs;
  at.step = step;
  at.num_steps = num_steps;
  reporter_.validating(at);
}

void RunLogger::epoch(EpochRecord record, const Judgement* judgement) {
  record.time = unix_seconds();
  record.peak_memory_bytes = peak_memory_bytes();
  record.peak_device_bytes = peak_device_memory(device_);
  record.gpu = gpu_meter_.take_average();
  if (judgement != nullptr) end_.saved_epoch = record.epoch;
  reporter_.epoch(record, judgement);
}

void RunLogger::stopped_early(const std::string& reason, const std::string& line) {
  end_.stopped_early = reason;
  log_.info(line);
}

void RunLogger::saving(std::vector<ImageFaultRecord> image_faults) {
  end_.image_faults = std::move(image_faults);
  note_usage();
}

std::string RunLogger::training_json() const {
  return format_training_json(reporter_.run(), end_);
}

void RunLogger::saved() {
  end_.model_path = config_.trained_model_path;
  end(end_.stopped_early == "signal" ? RunStatus::kStopped : RunStatus::kFinished);
}

void RunLogger::nothing_saved() {
  log_.info("No epoch was finished: no model is written.");
  end(RunStatus::kStopped);
}

void RunLogger::failed(const std::exception_ptr& failure) {
  end_.failure = report_failure(failure).messages.front();
  end(RunStatus::kFailed);
}

void RunLogger::end(RunStatus status) {
  end_.status = status;
  end_.time = unix_seconds();
  note_usage();
  reporter_.end(end_);
}

void RunLogger::note_usage() {
  end_.peak_memory_bytes = peak_memory_bytes();
  end_.peak_device_bytes = peak_device_memory(device_);
  end_.total_seconds = seconds_since_process_start();
}

}  // namespace kiln
