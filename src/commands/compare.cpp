#include "commands/compare.h"

#include <sstream>

#include "base/files.h"
#include "report/compare.h"
#include "report/run_file.h"

namespace kiln {

int run(const CompareConfig& config, Process& process) {
  Log& log = process.log;
  refuse_records(config.output_path, config.log_paths);
  std::vector<NamedRun> runs;
  for (const std::string& path : config.log_paths) runs.push_back({path, read_run(path)});
  sort_by_accuracy(&runs);
  write_file_durably(config.output_path, comparison_html(runs));
  std::istringstream lines(comparison_text(runs));
  for (std::string line; std::getline(lines, line);) log.info(line);
  log.info("");
  log.info("Wrote '" + config.output_path + "'.");
  return 0;
}

}  // namespace kiln
