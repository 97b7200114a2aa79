// The options of the commands that start jobs, except for the command after their `--`, and of
// those that show something: `kiln launch`, `tune`, `inspect`, `report`, `compare`,
// `describe`.
#include <algorithm>

#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

// "node1:2,node2": node1 has two slots, and node2 has one.
std::vector<RankHost> hosts_value(const Option& option, const std::string& text,
                                  const std::string& where) {
  text_value(option, text, where);
  std::vector<RankHost> hosts;
  for (const std::string& item : items_of(text)) {
    const std::size_t colon = item.find(':');
    RankHost host{item.substr(0, colon)};
    const std::string slots = colon == item.npos ? "1" : item.substr(colon + 1);
    const bool is_number = slots.find_first_not_of("0123456789") == slots.npos;
    host.slots = is_number && !slots.empty() && slots.size() <= 4 ? std::stoi(slots) : 0;
    if (!is_host_name(host.name) || host.slots < 1)
      refuse_text(where + " contains '" + item +
                  "', but must be a list of host names with slots, such as node1:2,node2:2.");
    hosts.push_back(std::move(host));
  }
  return hosts;
}

void check_launch(Given& given, LaunchConfig& config) {
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0 && config.ranks > slots)
    given.refuse("ranks", "is " + std::to_string(config.ranks) +
                              ", but the slots of --hosts add up to " + std::to_string(slots) +
                              ": raise the number after a colon.");
  config.settings = given.settings();
}

void check_compare(Given& given, CompareConfig& config) {
  if (config.log_paths.size() == 1)
    given.fault("log-path",
                "Only one run is given, but `kiln compare` needs at least two: add the --log-path "
                "of another run.");
}

}  // namespace

CommandInfo launch_command() {
  using Config = LaunchConfig;
  return command<LaunchConfig>(
      "launch", "Start multiple processes that train one model, on one or more hosts.",
      "--ranks N|auto [options] -- train [options of train]",
      {opt(&Config::ranks, "ranks", auto_or(1, 4096, "processes"), {kRanks, kRequired},
           "Processes to start. auto: one per slot of --hosts, or else one per GPU of this host.")
           .with(&Option::value_name, "N|auto"),
       opt(&Config::hosts, "hosts",
           Reader<std::vector<RankHost>>{{.value_name = "HOST:N,..."}, hosts_value}, kRanks,
           "Hosts to start them on, each with its number of slots (1 if omitted). Default: this "
           "host."),
       opt(&Config::log_path, "log-path", path("DIR"), kReporting,
           "Same as train's --log-path; 70_mpi_log.txt there holds the output of mpirun and all "
           "ranks.")},
      check_launch);
}

CommandInfo tune_command() {
  return command<TuneConfig>(
      "tune", "Find the fastest settings for a training job on this machine by short trials.",
      "[options] -- train [options of it]",
      {opt(&TuneConfig::output_path, "output-path", path("FILE"), kPaths,
           "Where to write the job with the fastest settings, for `kiln train --config`."),
       opt(&TuneConfig::steps, "steps", auto_or(5, 10'000, "steps"), kMachine,
           "Steps to measure in each trial, after five warm-up steps. auto: 30, or as many as take "
           "two seconds, but at least five."),
       opt(&TuneConfig::learning_rates, "learning-rates", on_off(), kTraining,
           "Also try learning rates, from a tenth to ten times the job's, and keep the one whose "
           "loss falls fastest. Needs --steps, such as 200.")});
}

CommandInfo inspect_command() {
  using Config = InspectConfig;
  return command<InspectConfig>(
      "inspect", "Show what a directory or file contains; optionally check its images.",
      "PATH [options]",
      {opt(&Config::path, "path", model_path("PATH"), {kPaths, kPositional, kRequired},
           "Directory or file to inspect; the flag name may be omitted."),
       opt(&Config::json, "json", flag(), kReporting, "Print a JSON object instead of a table."),
       opt(&Config::check, "check", flag(), kReporting,
           "Decode every image and list the undecodable ones; exit code 1 if there are any."),
       opt(&Config::valid_data_path, "valid-data-path", input_path("DIR"), kPaths,
           "Validation images, in the same formats: also list images that are in both, and with at "
           "most 20000 in all also at other sizes and qualities; exit code 1 if there are any."),
       within(&Config::records, record_rows()), within(&Config::records, task_rows())});
}

CommandInfo report_command() {
  return command<ReportConfig>(
      "report", "Write an HTML report of a training run, finished or not.", "[LOG-PATH] [options]",
      {opt(&ReportConfig::log_path, "log-path", path("DIR"), {kPaths, kPositional},
           "The --log-path of a run, or its metrics.jsonl; the flag name may be omitted.")
           .otherwise("logs"),
       opt(&ReportConfig::output_path, "output-path", path("FILE"), kPaths,
           "Output file. Default: report.html next to metrics.jsonl.")});
}

CommandInfo compare_command() {
  return command<CompareConfig>(
      "compare", "Compare training runs in a table and an HTML page.", "RUN RUN... [options]",
      {opt(&CompareConfig::log_paths, "log-path", path("RUN"), {kPaths, kPositional, kRequired},
           "The --log-path of a run, repeated for each run; the flag name may be omitted."),
       opt(&CompareConfig::output_path, "output-path", path("FILE"), kPaths,
           "Output file for the HTML page."),
       json_row<CompareConfig>(kPaths)},
      check_compare);
}

CommandInfo describe_command() {
  return command<DescribeConfig>(
      "describe", "Print every command and option, or the metrics of a run, as JSON.",
      "--format FORMAT",
      {opt(&DescribeConfig::format, "format", one_of({"json", "sagemaker-metrics"}),
           {kReporting, kRequired},
           "json: commands, options and what these accept. sagemaker-metrics: MetricDefinitions "
           "that match train's epoch line.")});
}

}  // namespace kiln
