// mpirun options that users of a platform pass along with a job. Only their environment variables
// are used, since those configure NCCL, libfabric and the like; the other options would conflict
// with the way kiln starts its ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kiln {

struct MpiOptions {
  // From `-x NAME=VALUE`, in order. `-x NAME` without a value passes on the value from this host's
  // environment.
  std::vector<std::pair<std::string, std::string>> variables;  // to set
  std::vector<std::string> names;    // all of them, to be exported to every host
  std::vector<std::string> ignored;  // the other options with their values: "'--mca btl ^openib'"
};

// Splits `text` at white space, as SageMaker's toolkit does. `where` names it in messages. Throws
// Error kParameterParsing for a `-x` without a name.
MpiOptions read_mpi_options(const std::string& text, const std::string& where);

}  // namespace kiln
