// How the ranks of a job combine their gradients.
#pragma once

#include <string>

namespace kiln {

struct ExchangeConfig {
  std::string name = "all-reduce";  // a row of train/exchange/exchange.cpp
  int num_servers = 1;              // for parameter-server: the last ranks
  int staleness = 4;                // steps that a worker may be ahead of the slowest one

  bool has_servers() const { return name == "parameter-server"; }
  // The number of ranks that train: the first ones of a job.
  int num_workers(int num_ranks) const {
    return has_servers() ? num_ranks - num_servers : num_ranks;
  }
  // The number of steps that may pass before a rank waits for the result of a vote among the ranks.
  int vote_delay() const { return has_servers() ? staleness : 0; }
};

}  // namespace kiln
