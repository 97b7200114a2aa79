// The options of `kiln launch`, except for the ranks' command after its `--`.
#include <algorithm>

#include "base/text.h"
#include "cli/binder.h"
#include "cli/option_rows.h"

namespace kiln {
namespace {

std::vector<Option> launch_options() {
  return {
      ranks(true, kRanks,
            "Processes to start. auto: one per slot of --hosts, or else one per GPU of this host."),
      optional_path("hosts", "HOST:N,...", "", kRanks,
                    "Hosts to start them on, each with its number of slots (1 if omitted). "
                    "Default: this host."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "Same as train's --log-path; 70_mpi_log.txt there holds the output of mpirun "
                    "and all ranks."),
  };
}

// Parses a text such as "node1:2,node2": node1 has two slots, and node2 has one. Returns no hosts
// if the text has a fault, which is reported.
std::vector<RankHost> rank_hosts(Binder& binder, const std::string& text) {
  std::vector<RankHost> hosts;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    RankHost host{item.substr(0, colon)};
    const std::string slots = colon == item.npos ? "1" : item.substr(colon + 1);
    const bool number =
        !slots.empty() && slots.size() <= 4 &&
        std::all_of(slots.begin(), slots.end(), [](char c) { return c >= '0' && c <= '9'; });
    host.slots = number ? std::stoi(slots) : 0;
    if (!is_host_name(host.name) || host.slots < 1) {
      binder.fault("hosts", ErrorCode::kParameterParsing,
                   "--hosts contains '" + item +
                       "', but must be a list of host names with slots, such as node1:2,node2:2.");
      return {};
    }
    hosts.push_back(std::move(host));
    begin = end + 1;
  }
  return hosts;
}

// The ranks' command line, and what `launch` needs from it, are filled in by parse_launch().
Command bind_launch(Binder& binder) {
  LaunchConfig config;
  config.ranks = binder.small_integer("ranks");
  config.hosts = rank_hosts(binder, binder.path("hosts"));
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0 && config.ranks > slots)
    binder.fault("ranks", ErrorCode::kParameterParsing,
                 "--ranks is " + std::to_string(config.ranks) +
                     ", but the slots of --hosts add up to " + std::to_string(slots) +
                     ": raise the number after a colon.");
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  return config;
}

}  // namespace

CommandInfo launch_command() {
  return {"launch", "Start multiple processes that train one model, on one or more hosts.",
          "--ranks N|auto [options] -- train [options of train]", launch_options(), bind_launch};
}

}  // namespace kiln
