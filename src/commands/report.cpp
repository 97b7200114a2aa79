#include "commands/report.h"

#include <filesystem>

#include "base/files.h"
#include "report/html_page.h"
#include "report/run_file.h"
#include "report/run_summary.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

fs::path output_of(const ReportConfig& config) {
  if (!config.output_path.empty()) return config.output_path;
  return record_of(config.log_path).parent_path() / kReportName;
}

}  // namespace

int run(const ReportConfig& config, Process& process) {
  const RunRecord run = read_run(config.log_path);
  const fs::path output = output_of(config);
  refuse_records(output, {config.log_path});
  write_file_durably(output, report_html(run));
  process.log.info("Wrote '" + output.string() + "' of a run that is " + status_text(run.end) +
                   ", " + std::to_string(run.epochs.size()) + " of " +
                   std::to_string(run.start.num_epochs) + " epochs.");
  return 0;
}

}  // namespace kiln
