// The mpirun command that starts ranks, with what this machine and its containers need.
#pragma once

#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "launch/supervised_process.h"

namespace kiln {

struct MpirunJob {
  int num_ranks = 1;
  std::vector<RankHost> hosts;     // empty: where mpirun finds room, which is this host
  std::vector<std::string> words;  // each rank's program and arguments
  int cpus = 1;                    // that this process may use
};

// The program `name` on PATH; empty when there is none.
std::string find_on_path(const std::string& name);

// Throws Error kUserError when mpirun is not installed. Ranks find their number as KILN_LAUNCHED in
// their environment, and on every host the variables that steer kiln, OpenMP, NCCL and tracking.
ProgramCall mpirun_call(const MpirunJob& job);

// "one core a rank, bound"; for the log.
std::string describe_binding(const MpirunJob& job);

// The host of each rank as mpirun will place them; empty names where nobody can tell before.
std::vector<std::string> planned_hosts(const MpirunJob& job);

}  // namespace kiln
