#include "commands/run_sinks.h"

#include <filesystem>

#include "report/html_page.h"
#include "report/run_file.h"

namespace kiln {

void add_run_sinks(const TrainConfig& config, RunReporter* reporter) {
  const std::filesystem::path folder = config.log_path;
  reporter->add([&] { return make_run_file(folder / kRunFileName); });
  reporter->add([&] { return make_html_report(folder / kReportName); });
}

}  // namespace kiln
