// The interface of libkiln_cuda.so. Uses only standard C++ types: the program includes no CUDA or
// NCCL headers, and the module needs no symbols from the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kiln {

enum class NcclType { kFloat32, kFloat64, kInt64 };

struct NcclCall {
  bool is_sum = true;    // otherwise a broadcast from rank 0
  void* data = nullptr;  // on the GPU, in place
  std::size_t count = 0;
  NcclType type = NcclType::kFloat32;
};

// This rank's place in an NCCL communicator.
struct NcclSeat {
  int rank = 0, size = 1, device = 0;
  std::string id;  // made by make_nccl_id on rank 0
};

enum class NcclState { kReady, kBusy, kFailed };

// One rank's non-blocking NCCL communicator and its side stream. Only close() waits for other
// ranks. May be called from any thread, one call at a time. Without close() or abort(), NCCL is
// left as it is, for a process that is about to end. A watchdog may call state(), fault(),
// num_finished() and abort(): the first three call nothing of CUDA, whose calls can wait for the
// driver's lock for as long as another thread waits for the GPU.
class NcclGroup {
 public:
  virtual ~NcclGroup() = default;
  // kBusy: the communicator is being set up, or the last start() has not been launched yet; no
  // other may begin.
  virtual NcclState state() = 0;
  virtual std::string fault() = 0;  // for kFailed: NCCL's message
  // Enqueues the collective on the side stream, after all work queued on the current stream so far.
  virtual void start(const NcclCall& call) = 0;
  // Call it once for each start(), after state() has become kReady. Records a mark for join().
  // Returns the number of marks so far.
  virtual std::uint64_t mark() = 0;
  // From now on num_finished() knows when the GPU has passed all marks so far. A kernel and a copy,
  // which the next collective waits for.
  virtual void count() = 0;
  virtual std::uint64_t num_finished() = 0;  // counted marks that the GPU has passed
  // GPU time of the collectives that are done, measured from when each could begin.
  virtual double seconds() = 0;
  // Makes later work on the current stream wait for the `mark`-th mark; the host does not wait.
  virtual void join(std::uint64_t mark) = 0;
  // Waits up to `patience_s` seconds until the started collectives are done on all ranks, then
  // frees everything.
  virtual void close(double patience_s) = 0;
  // Stops all collectives on the GPU and frees everything. May hang if the driver does.
  virtual void abort() = 0;
};

struct CudaModule {
  int version;  // kCudaModuleVersion of the build
  // Initializes the CUDA runtime on the device, makes it the calling thread's current device, and
  // runs a kernel of LibTorch there. Returns what CUDA or LibTorch said of a failure; empty: none.
  std::string (*device_fault)(int device);
  long long (*peak_memory_bytes)(int device);
  // Allocates pinned host memory of exactly this size; null if there is none. Thread-safe.
  void* (*new_pinned)(int device, std::size_t bytes);
  void (*free_pinned)(int device, void* memory);  // of new_pinned()
  int (*runtime_version)();                       // 13000 for CUDA 13.0
  long (*cudnn_version)();                        // 91900 for 9.19.0
  int (*nccl_version)();                          // 22809 for 2.28.9
  // The id that all ranks need to form a group; empty if there is a `fault`.
  std::string (*make_nccl_id)(std::string* fault);
  // Starts to set up the communicator; the caller owns the result. Throws c10::Error if CUDA cannot
  // be used.
  NcclGroup* (*make_nccl_group)(const NcclSeat& seat);
};

constexpr int kCudaModuleVersion = 7;
constexpr const char* kCudaModuleSymbol = "kiln_cuda_module";

}  // namespace kiln
