// /dev/shm, through which the processes of a host reach each other. Containers give 64 MiB of it
// unless told otherwise.
#pragma once

#include <string>

namespace kiln {

// To be called before MPI is started. Throws Error kUserError where the ranks on this host would
// not find room there: MPI would go the slow way round, or a rank would die of a bus error in the
// middle of a step.
void require_shared_memory(int local_size);

// What to say before NCCL is started by so many ranks of this host; empty where there is enough.
std::string shared_memory_warning(int local_size);

}  // namespace kiln
