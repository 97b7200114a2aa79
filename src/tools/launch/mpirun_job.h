// Builds the mpirun command that starts the ranks, with the settings needed on this machine and in
// containers.
#pragma once

#include <string>
#include <vector>

#include "record/vocabulary.h"
#include "tools/launch/supervised_process.h"

namespace kiln {

struct MpirunJob {
  int num_ranks = 1;
  std::vector<RankHost> hosts;     // empty: mpirun's default, which is this host
  std::vector<std::string> words;  // program and arguments, the same for each rank
};

// An environment variable that lists further variables to pass to every host, separated by commas.
inline constexpr const char* kPassOn = "KILN_PASS_ON";

// The path of program `name` on PATH; empty if there is none.
std::string find_on_path(const std::string& name);

// Sets KILN_LAUNCHED to the number of ranks in their environment. Passes to every host the
// variables that configure kiln, OpenMP, CUDA and its libraries, LibTorch, NCCL, UCX and MLflow,
// and those listed in kPassOn. Throws Error kUserError if mpirun is not installed.
ProgramCall mpirun_call(const MpirunJob& job);

// Raises this process's limit on open files to what mpirun and the ranks need; with fewer they hang
// instead of failing. Throws Error kFailedToCompleteOperation if the system does not allow that
// many.
void provide_open_files(int num_ranks);

// The host on which mpirun will place each rank; empty names if not known in advance.
std::vector<std::string> planned_hosts(const MpirunJob& job);

}  // namespace kiln
