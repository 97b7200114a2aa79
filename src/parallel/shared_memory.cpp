#include "parallel/shared_memory.h"

#include <sys/statvfs.h>

#include <cstdint>

#include "base/error.h"

namespace kiln {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// Open MPI's btl_vader_segment_size is 4 MiB; the rest is for what else is shared.
constexpr std::uint64_t kOfMpiRank = 5 * kMiB;
// NVIDIA asks for 1 GiB; taken for its usual host of eight GPUs.
constexpr std::uint64_t kOfNcclRank = 128 * kMiB;
constexpr const char* kRemedy =
    "start the container with --shm-size=1g or --ipc=host (Kubernetes: an emptyDir with medium "
    "Memory, mounted at /dev/shm)";

// The size of /dev/shm and not what is free of it, as the ranks ask one after the other. Enough for
// all where there is none: MPI then maps files in its session folder.
bool suffices(std::uint64_t needed, std::string* found) {
  struct statvfs shared {};
  if (::statvfs("/dev/shm", &shared) != 0) return true;
  const std::uint64_t size = shared.f_blocks * shared.f_frsize;
  *found = "/dev/shm has " + std::to_string(size / kMiB) + " MiB";
  return size >= needed;
}

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

}  // namespace

void require_shared_memory(int local_size) {
  if (local_size < 2) return;
  std::string found;
  const std::uint64_t needed = static_cast<unsigned>(local_size) * kOfMpiRank;
  if (suffices(needed, &found)) return;
  throw Error(ErrorCode::kUserError, found + ", but the " + std::to_string(local_size) +
                                         " ranks on this host need " + mebibytes(needed) +
                                         " there to reach each other: " + kRemedy + ".");
}

std::string shared_memory_warning(int local_size) {
  if (local_size < 2) return "";
  std::string found;
  const std::uint64_t needed = static_cast<unsigned>(local_size) * kOfNcclRank;
  if (suffices(needed, &found)) return "";
  return found + ", and NCCL may want " + mebibytes(needed) + " for the " +
         std::to_string(local_size) + " ranks on this host: if it fails, " + kRemedy + ".";
}

}  // namespace kiln
