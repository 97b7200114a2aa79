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
  launcher.local_size = number_in("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (const int launched = number_in("KILN_LAUNCHED"); launched > 0) {
    launcher.expected_size = launched;
    launcher.expectation =
        "kiln launch started " + std::to_string(launched) + ": have all hosts the same Open MPI?";
  } else if (const int tasks = number_in("SLURM_STEP_NUM_TASKS"); tasks > 0 && !open_mpi) {
    launcher.expected_size = tasks;
    launcher.expectation = "the Slurm step has " + std::to_string(tasks) +
                           " tasks: start it with srun --mpi=pmix (or with one task).";
  } else if (const int nodes = number_in("AZUREML_NODE_COUNT"); nodes > 1 && !launcher.mpi) {
    launcher.expected_size = nodes;
    launcher.expectation = "Azure ML gave it " + std::to_string(nodes) +
                           " nodes: set the job's distribution to type mpi, with a "
                           "process_count_per_instance.";
  }
  if (!launcher.mpi && number_in("PMI_SIZE") > 1)
    throw Error(ErrorCode::kUserError,
                "This process is one of " + std::to_string(number_in("PMI_SIZE")) +
                    " started by the launcher of another MPI (PMI_SIZE is set), which kiln cannot "
                    "join: start it with Open MPI's mpirun, with srun --mpi=pmix, or with kiln "
                    "launch.");
  return launcher;
}

}  // namespace kiln
