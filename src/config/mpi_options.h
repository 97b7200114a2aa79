// Options meant for mpirun, of a platform whose users give them: their variables are taken, as they
// configure NCCL, libfabric and the like; the rest would contradict how kiln starts its ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct MpiOptions {
  // `-x NAME=VALUE`, in order; without `=`, the value that this host's environment has.
  std::vector<std::pair<std::string, std::string>> variables;  // to set
  std::vector<std::string> names;                              // of all of them, for every host
  std::vector<std::string> ignored;  // other options, each with its values: "'--mca btl ^openib'"
};

// `text` is split at white space, as SageMaker's toolkit does. `where` names it in faults: Error
// kParameterParsing for a `-x` without a name.
MpiOptions read_mpi_options(const std::string& text, const std::string& where);

}  // namespace kiln
