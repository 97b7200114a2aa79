#include "commands/run_sinks.h"

#include <unistd.h>

#include <filesystem>

#include "report/epochs_csv.h"
#include "report/html_page.h"
#include "report/run_file.h"
#include "report/tensorboard.h"

namespace kiln {

void add_run_sinks(const TrainConfig& config, RunReporter* reporter) {
  const std::filesystem::path folder = config.log_path;
  if (::access(folder.c_str(), W_OK) != 0) return;  // which has been warned of
  reporter->add([&] { return make_run_file(folder / kRunFileName); });
  reporter->add([&] { return make_epochs_csv(folder / kEpochsFileName); });
  reporter->add([&] { return make_tensorboard(folder / "tensorboard"); });
  reporter->add([&] { return make_html_report(folder / kReportName); });
}

}  // namespace kiln
