#include "parallel/gpu_assignment.h"

#include <algorithm>
#include <map>
#include <set>

namespace kiln {
namespace {

struct Host {
  std::vector<std::size_t> ranks;
  std::set<std::string> gpus;
  std::size_t most_seen = 0;  // by one rank: how many GPUs there are at least, where UUIDs lack

  std::size_t num_gpus() const { return std::max(gpus.size(), most_seen); }
};

std::map<std::string, Host> by_host(const std::vector<RankDevice>& ranks) {
  std::map<std::string, Host> hosts;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].is_cuda) continue;
    Host& host = hosts[ranks[rank].host];
    host.ranks.push_back(rank);
    host.most_seen = std::max(host.most_seen, ranks[rank].visible.size());
    for (const std::string& gpu : ranks[rank].visible)
      if (!gpu.empty()) host.gpus.insert(gpu);
  }
  return hosts;
}

// "0 and 1", "0, 2 and 5", "0, 1, 2, … and 63"
std::string listed(const std::vector<std::size_t>& numbers) {
  std::string text = std::to_string(numbers.front());
  for (std::size_t i = 1; i + 1 < numbers.size(); ++i) {
    if (i == 8) {
      text += ", …";
      break;
    }
    text += ", " + std::to_string(numbers[i]);
  }
  if (numbers.size() > 1) text += " and " + std::to_string(numbers.back());
  return text;
}

std::string name_of(std::size_t rank, const std::vector<RankDevice>& ranks) {
  return "rank " + std::to_string(rank) + " on host " + ranks[rank].host;
}

void add(Problems& problems, const std::string& sentence) {
  problems.add(Error(ErrorCode::kUserError, sentence));
}

void find_mixed_kinds(const std::vector<RankDevice>& ranks, Problems& problems) {
  const auto first = [&](bool cuda) {
    return std::find_if(ranks.begin(), ranks.end(),
                        [&](const RankDevice& rank) { return rank.is_cuda == cuda; });
  };
  const auto on_gpu = first(true), on_cpu = first(false);
  if (on_gpu == ranks.end() || on_cpu == ranks.end()) return;
  const auto number = [&](auto place) {
    return name_of(static_cast<std::size_t>(place - ranks.begin()), ranks);
  };
  add(problems, "The ranks are on different kinds of device: " + number(on_gpu) + " found a GPU, " +
                    number(on_cpu) +
                    " computes on the CPU: give every rank a GPU, or use --device cpu.");
}

}  // namespace

Problems find_gpu_problems(const std::vector<RankDevice>& ranks) {
  Problems problems;
  std::set<std::string> crowded;
  for (const auto& [name, host] : by_host(ranks)) {
    if (host.ranks.size() <= host.num_gpus()) continue;
    crowded.insert(name);
    add(problems, "Process count per node (" + std::to_string(host.ranks.size()) +
                      ") is greater than the processing units (" + std::to_string(host.num_gpus()) +
                      ") on host " + name +
                      ": start no more ranks there than it has GPUs, or use --device cpu.");
  }
  std::map<std::string, std::vector<std::size_t>> users;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].is_cuda && !ranks[rank].chosen.empty() && !crowded.contains(ranks[rank].host))
      users[ranks[rank].chosen].push_back(rank);
  for (const auto& [gpu, numbers] : users) {
    if (numbers.size() < 2) continue;
    add(problems, "Ranks " + listed(numbers) + " on host " + ranks[numbers.front()].host +
                      " have the same GPU (" + gpu +
                      "): let each see its own, or all of the host's (CUDA_VISIBLE_DEVICES).");
  }
  find_mixed_kinds(ranks, problems);
  return problems;
}

std::vector<std::string> find_idle_gpus(const std::vector<RankDevice>& ranks) {
  std::vector<std::string> sentences;
  for (const auto& [name, host] : by_host(ranks)) {
    if (host.ranks.size() >= host.num_gpus()) continue;
    sentences.push_back(std::to_string(host.num_gpus() - host.ranks.size()) + " of the " +
                        std::to_string(host.num_gpus()) + " GPUs of host " + name + " stay idle");
  }
  return sentences;
}

}  // namespace kiln
