// Whether the ranks of a job have a GPU each. Pure functions over what every rank found, gathered
// from all; a rank's place in the list is its number.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace kiln {

struct RankDevice {
  std::string host = {};
  bool is_cuda = false;
  std::string chosen = {};  // UUID of the GPU it computes on; empty when unknown
  std::vector<std::string> visible =
      {};  // UUIDs of all GPUs that it sees; empty texts when unknown
};

// All reasons why these ranks cannot train together, each Error kUserError, so exit code 1:
// more ranks on a host than GPUs, which are the distinct UUIDs that its ranks see together; two
// ranks on one GPU; ranks on CPUs beside ranks on GPUs. Empty for ranks on CPUs alone.
Problems find_gpu_problems(const std::vector<RankDevice>& ranks);

// "2 of the 4 GPUs of host node7 stay idle", one a host where it is so.
std::vector<std::string> find_idle_gpus(const std::vector<RankDevice>& ranks);

}  // namespace kiln
