// What a rank knows of the others beside the collectives, and what it makes of that when one does
// not come.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct RankNews {
  std::uint64_t started = 0;  // collectives it has started so far
  bool patient = false;       // it may take long: the others wait as long as it answers
  std::string phase;
  std::optional<std::chrono::steady_clock::time_point> heard;  // empty: never
};

// The news of all ranks, as rank `rank` sees them while it waits in its collective `ticket`.
struct RankView {
  const std::vector<RankNews>& news;  // [size]
  const std::vector<std::string>& hosts;
  int rank = 0;
  std::uint64_t ticket = 0;
  // A rank that has not answered for so long is told of as silent.
  std::chrono::duration<double> silence = std::chrono::seconds(10);
};

// In sentences: which ranks have not started the collective or do not answer, and what they do.
std::string missing_ranks(const RankView& view);

// True while ranks are missing that all said that they take long, and still answer.
bool missing_are_patient(const RankView& view);

}  // namespace kiln
