// The options of `kiln launch` and `kiln tune`, except for the command after their `--`.
#include <algorithm>

#include "base/text.h"
#include "cli/command_rows.h"

namespace kiln {
namespace {

// Parses a text such as "node1:2,node2": node1 has two slots, and node2 has one.
std::vector<RankHost> hosts_value(const Option& option, const std::string& text,
                                  const std::string& where) {
  path_value(option, text, where);
  std::vector<RankHost> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    RankHost host{item.substr(0, colon)};
    const std::string slots = colon == item.npos ? "1" : item.substr(colon + 1);
    const bool number =
        !slots.empty() && slots.size() <= 4 &&
        std::all_of(slots.begin(), slots.end(), [](char c) { return c >= '0' && c <= '9'; });
    host.slots = number ? std::stoi(slots) : 0;
    if (!is_host_name(host.name) || host.slots < 1)
      throw Error(ErrorCode::kParameterParsing,
                  where + " contains '" + item +
                      "', but must be a list of host names with slots, such as node1:2,node2:2.");
    hosts.push_back(std::move(host));
    begin = end + 1;
  }
  return hosts;
}

Reader<std::vector<RankHost>> host_list() {
  return {{.value_name = "HOST:N,..."},
          hosts_value,
          [](const Option&, const std::vector<RankHost>&) { return std::string(); }};
}

Rows<LaunchConfig> launch_rows() {
  using Config = LaunchConfig;
  return {
      opt(&Config::ranks, "ranks", auto_or(1, 4096, "processes"), kRanks,
          "Processes to start. auto: one per slot of --hosts, or else one per GPU of this host.")
          .shown_as("N|auto")
          .required(),
      opt(&Config::hosts, "hosts", host_list(), kRanks,
          "Hosts to start them on, each with its number of slots (1 if omitted). Default: this "
          "host."),
      opt(&Config::log_path, "log-path", path("DIR"), kReporting,
          "Same as train's --log-path; 70_mpi_log.txt there holds the output of mpirun and all "
          "ranks.")
          .noted_in(&Config::log_path_given),
  };
}

void check_launch(Binder& binder, LaunchConfig& config) {
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0 && config.ranks > slots)
    binder.fault("ranks", ErrorCode::kParameterParsing,
                 "--ranks is " + std::to_string(config.ranks) +
                     ", but the slots of --hosts add up to " + std::to_string(slots) +
                     ": raise the number after a colon.");
}

Rows<TuneConfig> tune_rows() {
  return {
      opt(&TuneConfig::output_path, "output-path", path("FILE"), kPaths,
          "Where to write the job with the fastest settings, for `kiln train --config`."),
      opt(&TuneConfig::steps, "steps", from(5, 10'000, "steps"), kMachine,
          "Steps to measure in each trial, after five warm-up steps."),
      opt(&TuneConfig::learning_rates, "learning-rates", on_off(), kTraining,
          "Also try learning rates, from a tenth to ten times the job's, and keep the one whose "
          "loss falls fastest. Needs more --steps, such as 200."),
  };
}

}  // namespace

CommandInfo launch_command() {
  return command("launch", "Start multiple processes that train one model, on one or more hosts.",
                 "--ranks N|auto [options] -- train [options of train]", launch_rows(),
                 check_launch);
}

CommandInfo tune_command() {
  return command("tune",
                 "Find the fastest settings for a training job on this machine by short trials.",
                 "[options] -- train [options of it]", tune_rows());
}

}  // namespace kiln
