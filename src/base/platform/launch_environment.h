// Detects what started this process, by the environment (Open MPI, PMIx, Slurm, Kubernetes,
// SageMaker, Vertex AI, AWS Batch, PyTorch's launchers), and checks the shared memory of this host
// or container.
#pragma once

#include <string>

namespace kiln {

struct LaunchEnvironment {
  bool mpi = false;         // Open MPI or PMIx variables are set: MPI can be initialized
  int expected_size = 0;    // according to the launcher or the platform; 0: unknown
  int local_size = 0;       // ranks on this host; 0: unknown
  std::string expectation;  // why that size is expected, as the end of a sentence, with the remedy
};

// Variables that hold numbers are read strictly: unless noted, functions throw Error kUserError,
// which names the variable and its value, for one that holds anything else.

// Throws Error kUserError if the launcher belongs to another MPI (PMI variables without PMIx):
// every process would then run alone.
LaunchEnvironment detect_launch_environment();

// Whether this is a job of Azure ML, SageMaker, Vertex AI or Kubeflow, which collect the folders
// that a job was told to write, and nothing beside them.
bool collects_outputs();

// Whether a path is in the file system of a container, and gone with it: that of /, an overlay.
bool is_lost_with_container(const std::string& path);

// The number of processes that a launcher started together with this one; 1 if none did.
int num_launched();
// The rank that Open MPI, PMIx, PMI or Slurm gave this process, among those of the job and of this
// host; 0 if none did, if a variable of theirs is left over, or is not a number.
int launched_rank();
int launched_local_rank();

// One of equal parts of a job, which processes do that know nothing of each other.
struct JobPart {
  int number = 1, count = 1;     // `number` is from 1 to `count`
  int local = 0, num_local = 1;  // which of how many processes of its host
  bool operator==(const JobPart&) const = default;
};

// The part of this task of a whole Slurm array, of this host of a SageMaker job, or of this RANK of
// WORLD_SIZE. `count`, if above 0: the part of so many, of this task of a whole Slurm array or this
// pod of an indexed job of Kubernetes, which does not know their number. Throws Error kUserError if
// it is none of these or has no part, kParameterParsing if SageMaker's file is damaged.
JobPart part_of_job(int count);

// The processes of a host communicate through /dev/shm. Containers get 64 MiB of it by default.

// Call it before MPI is initialized. Throws Error kUserError if it is too small for the ranks on
// this host: MPI would fall back to a slow path, or a rank would die of a bus error in the middle
// of a step.
void require_shared_memory(int local_size);

// A warning to show before this many ranks of this host initialize NCCL; empty if there is enough
// shared memory.
std::string shared_memory_warning(int local_size);

}  // namespace kiln
