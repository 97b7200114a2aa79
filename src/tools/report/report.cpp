#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "record/picture_file.h"
#include "record/run_file.h"
#include "record/run_json.h"
#include "record/run_summary.h"
#include "report/page/html.h"
#include "report/page/page.h"
#include "report/scores/score_formats.h"
#include "tools/commands.h"

namespace kiln {

namespace fs = std::filesystem;

// A run in the table of a comparison, for programs: the saved epoch by the names of training.json.
static Json numbers_of(const NamedRun& named) {
  const RunRecord& run = named.run;
  const RunSummary summary = summary_of(run);
  Json json = {{"run", named.name},
               {"model", run.start.model},
               {"status", as_json(run.end.status)},
               {"epochs", run.epochs.size()},
               {"seconds", summary.seconds},
               {"images_per_second", as_json(summary.images_per_second)},
               {"top1_low", as_json(summary.top1_interval.low)},
               {"top1_high", as_json(summary.top1_interval.high)}};
  const Json epoch = epoch_json(summary.kept ? *summary.kept : EpochRecord());
  for (const auto& [name, value] : epoch.items())
    if (value.is_primitive()) json[name] = summary.kept ? value : Json();
  return json;
}

static std::string comparison_csv(const Json& runs) {
  std::vector<ScoreCell> heads;
  for (const auto& [name, value] : runs.front().items()) heads.emplace_back(name);
  std::string text = csv_line(heads);
  for (const Json& run : runs) {
    std::vector<ScoreCell> cells;
    for (const auto& [name, first] : runs.front().items()) {
      const Json value = run.value(name, Json());
      cells.emplace_back(value.is_string() ? value.get<std::string>()
                         : value.is_null() ? ""
                                           : value.dump());
    }
    text += csv_line(cells);
  }
  return text;
}

int run(const ReportConfig& config, Process& process) {
  RunRecord run = read_run(config.log_path);
  const fs::path logs = record_of(config.log_path).parent_path();
  if (const std::string fault = read_pictures(logs / kPicturesName, &run); !fault.empty())
    process.log.warning(fault);
  if (run.end.status == RunStatus::kRunning && run.start.host == host_name() &&
      AppendedFile::is_abandoned(record_of(config.log_path))) {
    run.end.status = RunStatus::kFailed;
    run.end.failure = "it was killed: no process writes its record anymore";
    const fs::path best = logs / kBestOfRun;
    if (is_there(best / "_meta.yaml"))
      run.end.failure += "; the model of its best epoch is in " + quoted_path(best);
  }
  const fs::path output =
      config.output_path.empty() ? logs / kReportName : fs::path(config.output_path);
  refuse_records(output, {config.log_path});
  write_file_durably(output, report_html(run, output, logs));
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
    const fs::path page = record_of(path).parent_path() / kReportName;
    runs.push_back({path, read_run(path), address_of(page, config.output_path)});
    if (runs.back().run.start.data.words != TaskWords())
      throw Error(ErrorCode::kUserError,
                  "Runs are compared by their top-1, which '" + path +
                      "' does not have, since its images have several labels: compare the mean "
                      "average precision on the pages that `kiln report` writes.");
  }
  sort_by_accuracy(&runs);
  const std::string form = fs::path(config.output_path).extension();
  const auto numbers = [&] { return list_json(runs, numbers_of); };
  write_file_durably(config.output_path, form == ".csv"    ? comparison_csv(numbers())
                                         : form == ".json" ? json_text(numbers(), 2) + "\n"
                                                           : comparison_html(runs));
  std::istringstream lines(comparison_text(runs));
  for (std::string line; std::getline(lines, line);) log.info(line);
  log.info("");
  log.info("Wrote '" + config.output_path + "'.");
  if (config.json) std::fputs((json_text({{"runs", numbers()}}, 1) + "\n").c_str(), stdout);
  return 0;
}

}  // namespace kiln
