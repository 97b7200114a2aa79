#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "record/run_file.h"
#include "record/run_summary.h"
#include "report/page/page.h"
#include "tools/commands.h"

namespace kiln {

namespace fs = std::filesystem;

int run(const ReportConfig& config, Process& process) {
  RunRecord run = read_run(config.log_path);
  if (run.end.status == RunStatus::kRunning && run.start.host == host_name() &&
      AppendedFile::is_abandoned(record_of(config.log_path))) {
    run.end.status = RunStatus::kFailed;
    run.end.failure = "it was killed: no process writes its record anymore";
    const fs::path best = record_of(config.log_path).parent_path() / kBestOfRun;
    if (is_there(best / "_meta.yaml"))
      run.end.failure += "; the model of its best epoch is in " + quoted_path(best);
  }
  const fs::path output = config.output_path.empty()
                              ? record_of(config.log_path).parent_path() / kReportName
                              : fs::path(config.output_path);
  refuse_records(output, {config.log_path});
  write_file_durably(output, report_html(run));
  process.log.info("Wrote '" + output.string() + "' for a run that is " + status_text(run.end) +
                   ", " + std::to_string(run.epochs.size()) + " of " +
                   plural(run.start.num_epochs, "epoch", "epochs") + ".");
  return 0;
}

int run(const CompareConfig& config, Process& process) {
  Log& log = process.log;
  refuse_records(config.output_path, config.log_paths);
  std::vector<NamedRun> runs;
  for (const std::string& path : config.log_paths) {
    runs.push_back({path, read_run(path)});
    if (runs.back().run.start.data.words != TaskWords())
      throw Error(ErrorCode::kUserError,
                  "Runs are compared by their top-1, which '" + path +
                      "' does not have, since its images have several labels: compare the mean "
                      "average precision on the pages that `kiln report` writes.");
  }
  sort_by_accuracy(&runs);
  write_file_durably(config.output_path, comparison_html(runs));
  std::istringstream lines(comparison_text(runs));
  for (std::string line; std::getline(lines, line);) log.info(line);
  log.info("");
  log.info("Wrote '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
