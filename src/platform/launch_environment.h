// What started this process and what it left the ranks: a launcher's variables (Open MPI, PMIx,
// Slurm, Kubernetes), and the shared memory of this host or container.
#pragma once

#include <string>

namespace kiln {

struct LaunchEnvironment {
  bool mpi = false;         // Open MPI or PMIx variables are there: MPI can be started
  int expected_size = 0;    // that the launcher or the platform tells; 0: nobody says
  int local_size = 0;       // ranks on this host; 0: nobody says
  std::string expectation;  // why, as the end of a sentence, with the remedy
};

// Throws Error kUserError for a launcher of another MPI (PMI variables without PMIx), under which
// every process would take itself for the only one.
LaunchEnvironment detect_launch_environment();

// /dev/shm, through which the processes of a host reach each other. Containers give 64 MiB of it
// unless told otherwise.

// To be called before MPI is started. Throws Error kUserError where the ranks on this host would
// not find room there: MPI would go the slow way round, or a rank would die of a bus error in the
// middle of a step.
void require_shared_memory(int local_size);

// What to say before NCCL is started by so many ranks of this host; empty where there is enough.
std::string shared_memory_warning(int local_size);

}  // namespace kiln
