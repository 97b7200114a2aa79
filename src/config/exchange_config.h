// How the ranks of a job combine their gradients.
#pragma once

#include <string>

namespace kiln {

struct ExchangeConfig {
  std::string name = "all-reduce";  // a row of train/exchange/exchange.cpp
  int num_servers = 1;              // of parameter-server: the last ranks
  int staleness = 4;                // steps that a worker may be ahead of the slowest

  bool has_servers() const { return name == "parameter-server"; }
  // Of the ranks of a job, the first ones: those that train.
  int num_workers(int num_ranks) const {
    return has_servers() ? num_ranks - num_servers : num_ranks;
  }
  // Steps after which a rank waits for a vote of the ranks.
  int vote_delay() const { return has_servers() ? staleness : 0; }
};

}  // namespace kiln
