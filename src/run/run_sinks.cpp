#include "run/run_sinks.h"

#include <unistd.h>

#include <filesystem>
#include <stdexcept>

#include "report/appended_file.h"
#include "report/epochs_csv.h"
#include "report/html_page.h"
#include "report/kfp.h"
#include "report/mlflow_settings.h"
#include "report/mlflow_sink.h"
#include "report/run_file.h"
#include "report/tensorboard.h"

namespace kiln {
namespace {

void add_files(const std::filesystem::path& folder, RunReporter* reporter) {
  if (::access(folder.c_str(), W_OK) != 0) return;  // which has been warned of
  if (AppendedFile::is_in_use(folder / kRunFileName)) {
    reporter->add([&]() -> std::unique_ptr<RunSink> {
      throw std::runtime_error("Another run is writing its records to '" + folder.string() +
                               "', so this one keeps none, and no log file. Give each run a "
                               "--log-path of its own.");
    });
    return;
  }
  reporter->add([&] { return make_run_file(folder / kRunFileName); });
  reporter->add([&] { return make_epochs_csv(folder / kEpochsFileName); });
  reporter->add([&] { return make_tensorboard(folder / "tensorboard"); });
  reporter->add([&] { return make_html_report(folder / kReportName); });
}

}  // namespace

void add_run_sinks(const TrainConfig& config, RunReporter* reporter) {
  add_files(config.output.log_path, reporter);
  if (!config.output.kfp_executor_input.empty())
    reporter->add([&] { return make_kfp_artifact(config.output.kfp_executor_input); });
  if (!config.output.kfp_metrics.empty())
    reporter->add([&] { return make_kfp_metrics_file(config.output.kfp_metrics); });
  if (const std::optional<MlflowSettings> settings = mlflow_settings_of_environment())
    reporter->add([&] {
      const std::filesystem::path report =
          std::filesystem::path(config.output.log_path) / kReportName;
      return make_mlflow_sink(*settings, {{report}, config.output.mlflow_log_model},
                              reporter->log());
    });
}

}  // namespace kiln
