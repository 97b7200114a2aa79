// Detects what started this process: a launcher's environment variables (Open MPI, PMIx, Slurm,
// Kubernetes), and the shared memory of this host or container.
#pragma once

#include <string>

namespace kiln {

struct LaunchEnvironment {
  bool mpi = false;         // Open MPI or PMIx variables are set: MPI can be initialized
  int expected_size = 0;    // according to the launcher or the platform; 0: unknown
  int local_size = 0;       // ranks on this host; 0: unknown
  std::string expectation;  // why, as the end of a sentence, with the remedy
};

// Throws Error kUserError for a launcher of another MPI (PMI variables without PMIx), under which
// every process would run alone.
LaunchEnvironment detect_launch_environment();

// /dev/shm, which the processes of a host use to communicate. Containers get 64 MiB of it by
// default.

// Call it before MPI is initialized. Throws Error kUserError if it is too small for the ranks on
// this host: MPI would fall back to a slow path, or a rank would die of a bus error in the middle
// of a step.
void require_shared_memory(int local_size);

// A warning to show before this many ranks of this host initialize NCCL; empty if there is enough
// shared memory.
std::string shared_memory_warning(int local_size);

}  // namespace kiln
