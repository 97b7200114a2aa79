#include "commands/run_sinks.h"

#include <filesystem>

#include "commands/mlflow_settings.h"
#include "report/kfp.h"
#include "report/mlflow_sink.h"
#include "report/run_file.h"

namespace kiln {

void add_run_sinks(const TrainConfig& config, RunReporter* reporter) {
  const std::filesystem::path folder = config.log_path;
  reporter->add([&] { return make_run_file(folder / kRunFileName); });
  if (!config.kfp_executor_input.empty())
    reporter->add([&] { return make_kfp_artifact(config.kfp_executor_input); });
  if (!config.kfp_metrics.empty())
    reporter->add([&] { return make_kfp_metrics_file(config.kfp_metrics); });
  if (const std::optional<MlflowSettings> settings = mlflow_settings_of_environment())
    reporter->add([&] {
      return make_mlflow_sink(*settings, {{folder / "report.html"}, config.mlflow_log_model},
                              reporter->log());
    });
}

}  // namespace kiln
