// What libkiln_cuda.so hands to the program. Standard C++ types only: the program knows no CUDA or
// NCCL header, and the module needs no symbol of the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln {

enum class NcclType { kFloat32, kFloat64, kInt64, kBfloat16 };

struct NcclCall {
  bool is_sum = true;    // else rank 0's values everywhere
  void* data = nullptr;  // on the GPU, in place
  std::size_t count = 0;
  NcclType type = NcclType::kFloat32;
};

// This rank's seat in a communicator of NCCL.
struct NcclSeat {
  int rank = 0, size = 1, device = 0;
  std::string id;  // of make_nccl_id on rank 0
};

// One rank's non-blocking communicator of NCCL and its side stream. No call waits for another rank,
// but for close(). One call at a time, from any thread. Neither close() nor abort(): NCCL's side is
// left as it is, for a process that ends.
class NcclGroup {
 public:
  enum class State { kReady, kBusy, kFailed };

  virtual ~NcclGroup() = default;
  // kBusy: being set up, or the last start() is not yet launched, and no other may begin.
  virtual State state() = 0;
  virtual std::string fault() = 0;  // of kFailed, in NCCL's words
  // Puts the collective on the side stream, behind the work on the current stream so far.
  virtual void start(const NcclCall& call) = 0;
  // Once for each start(), when it left kReady: what num_finished() and join() look for. Returns
  // how many marks there are now.
  virtual std::uint64_t mark() = 0;
  virtual std::uint64_t num_finished() = 0;  // marks that the GPU has passed
  // Later work on the current stream waits for the `mark`-th mark; the host does not.
  virtual void join(std::uint64_t mark) = 0;
  // Waits for what was started on all ranks, for `patience_s` at most; then frees all.
  virtual void close(double patience_s) = 0;
  // Stops what runs on the GPU and frees all. May hang when the driver does.
  virtual void abort() = 0;
};

struct CudaModule {
  int version;  // kCudaModuleVersion of the build
  // Starts the CUDA runtime on the device and makes it the calling thread's; null, or the runtime's
  // sentence on why that failed.
  const char* (*device_fault)(int device);
  long long (*peak_memory_bytes)(int device);
  int (*runtime_version)();  // 13000 for CUDA 13.0
  long (*cudnn_version)();   // 91900 for 9.19.0
  int (*nccl_version)();     // 22809 for 2.28.9
  // Bytes that all ranks need for one group; empty with a `fault`.
  std::string (*make_nccl_id)(std::string* fault);
  // Begins to set up; the caller owns it. Throws c10::Error where CUDA cannot be used.
  NcclGroup* (*make_nccl_group)(const NcclSeat& seat);
};

constexpr int kCudaModuleVersion = 4;
constexpr const char* kCudaModuleSymbol = "kiln_cuda_module";

// NCCL behind the interface of cuda/module.h.

std::string make_nccl_id(std::string* fault);
NcclGroup* make_nccl_group(const NcclSeat& seat);

}  // namespace kiln
