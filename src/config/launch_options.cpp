// `kiln launch`, but for what stands after its `--`.
#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/binder.h"
#include "config/option_rows.h"

namespace kiln {
namespace {

std::vector<Option> launch_options() {
  return {
      ranks(true, kRanks,
            "Processes that train one model together. auto: one for each slot of --hosts, or else "
            "for each GPU of this host."),
      optional_path("hosts", "HOST:N,...", "", kRanks,
                    "Where to start them, with the number for each host (1 when left out). Without "
                    "it: on this host."),
      optional_path("log-path", "DIR", "logs", kReporting,
                    "The --log-path of train; 70_mpi_log.txt there keeps what mpirun and all ranks "
                    "say."),
  };
}

bool is_host_name(std::string_view text) {
  return !text.empty() && text[0] != '-' && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  });
}

// "node1:2,node2" -> two slots and one.
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
                   "--hosts holds '" + item +
                       "', but must be names with a number of processes, such as "
                       "node1:2,node2:2.");
      return {};
    }
    hosts.push_back(std::move(host));
    begin = end + 1;
  }
  return hosts;
}

// The command line of the ranks, and what `launch` needs to know of it, is filled in by the parser.
Command bind_launch(Binder& binder) {
  LaunchConfig config;
  config.ranks = binder.small_integer("ranks");
  config.hosts = rank_hosts(binder, binder.path("hosts"));
  int slots = 0;
  for (const RankHost& host : config.hosts) slots += host.slots;
  if (slots > 0 && config.ranks > slots)
    binder.fault("ranks", ErrorCode::kParameterParsing,
                 "--ranks is " + std::to_string(config.ranks) + ", but --hosts has room for " +
                     std::to_string(slots) + ": raise the numbers after the colons.");
  config.log_path = binder.path("log-path");
  config.log_path_given = binder.given("log-path");
  return config;
}

}  // namespace

CommandInfo launch_command() {
  return {"launch",
          "Start several processes that train one model together, on this host or several.",
          "--ranks N|auto [options] -- train [options of train]", launch_options(), bind_launch};
}

}  // namespace kiln
