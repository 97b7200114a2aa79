// The mpirun command that starts ranks, with the settings that this machine and its containers
// need.
#pragma once

#include <string>
#include <vector>

#include "base/vocabulary.h"
#include "launch/supervised_process.h"

namespace kiln {

struct MpirunJob {
  int num_ranks = 1;
  std::vector<RankHost> hosts;     // empty: mpirun's default, which is this host
  std::vector<std::string> words;  // program and arguments of each rank
};

// The environment variable that names more variables for every host, separated by commas.
inline constexpr const char* kPassOn = "KILN_PASS_ON";

// The path of program `name` on PATH; empty if there is none.
std::string find_on_path(const std::string& name);

// Throws Error kUserError if mpirun is not installed. KILN_LAUNCHED in the ranks' environment holds
// their number; variables that configure kiln, OpenMP, CUDA and its libraries, LibTorch, NCCL, UCX
// and tracking are passed to every host, and those that kPassOn names.
ProgramCall mpirun_call(const MpirunJob& job);

// Raises this process's limit of open files to what mpirun and the ranks need, which hang instead
// of failing where they have fewer. Throws Error kFailedToCompleteOperation if the system does not
// allow that many.
void provide_open_files(int num_ranks);

// The host of each rank as mpirun will place them; empty names if that is not known in advance.
std::vector<std::string> planned_hosts(const MpirunJob& job);

}  // namespace kiln
