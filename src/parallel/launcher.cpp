#include "parallel/launcher.h"

#include <cstdlib>
#include <string>

#include "base/error.h"

namespace kiln {
namespace {

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0';
}

int number_in(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

Launcher find_launcher() {
  Launcher launcher;
  const bool open_mpi = is_set("OMPI_COMM_WORLD_SIZE");
  launcher.mpi = open_mpi || is_set("PMIX_RANK");
  if (!open_mpi) launcher.expected_size = number_in("SLURM_STEP_NUM_TASKS");
  if (!launcher.mpi && number_in("PMI_SIZE") > 1)
    throw Error(ErrorCode::kUserError,
                "This process is one of " + std::to_string(number_in("PMI_SIZE")) +
                    " started by the launcher of another MPI (PMI_SIZE is set), which kiln cannot "
                    "join: start it with Open MPI's mpirun, with srun --mpi=pmix, or with kiln "
                    "launch.");
  return launcher;
}

}  // namespace kiln
