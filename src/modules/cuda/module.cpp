#include "modules/cuda/module.h"

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

namespace kiln {
namespace {

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0), "non-blocking communicators");

std::string in_words(ncclResult_t result, ncclComm_t communicator) {
  std::string text = ncclGetErrorString(result);
  const char* last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') text += ": " + std::string(last);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

ncclDataType_t type_of(NcclType type) {
  constexpr std::array kTypes = {ncclFloat32, ncclFloat64, ncclInt64};  // by NcclType
  return kTypes[static_cast<std::size_t>(type)];
}

// The documentation of NCCL: a call on a non-blocking communicator may return ncclInProgress; until
// ncclCommGetAsyncError says ncclSuccess, its kernel may not be on the stream (so no event is
// recorded), and only ncclCommAbort may be called.
class NcclCommunicator : public NcclGroup {
 public:
  explicit NcclCommunicator(const NcclSeat& seat)
      : device_(static_cast<c10::DeviceIndex>(seat.device)),
        side_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true, device_)) {
    const c10::cuda::CUDAGuard guard(device_);
    ncclUniqueId id;
    std::memset(&id, 0, sizeof id);
    std::memcpy(&id, seat.id.data(), std::min(seat.id.size(), sizeof id));
    const c10::cuda::CUDAStreamGuard on_side(side_);
    num_marked_ = at::zeros({1}, at::device({at::kCUDA, device_}).dtype(at::kLong));
    C10_CUDA_CHECK(cudaHostAlloc(reinterpret_cast<void**>(&num_reached_), sizeof *num_reached_,
                                 cudaHostAllocDefault));
    *num_reached_ = 0;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    keep(ncclCommInitRankConfig(&communicator_, seat.size, id, seat.rank, &config));
  }

  NcclState state() override {
    if (failure_ != ncclSuccess) return NcclState::kFailed;
    if (communicator_ == nullptr) return NcclState::kFailed;
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(communicator_, &result);
    if (asked != ncclSuccess) result = asked;
    if (result == ncclInProgress) return NcclState::kBusy;
    keep(result);
    return result == ncclSuccess ? NcclState::kReady : NcclState::kFailed;
  }

  std::string fault() override { return in_words(failure_, communicator_); }

  void start(const NcclCall& call) override {
    const c10::cuda::CUDAGuard guard(device_);
    at::cuda::CUDAEvent before;
    before.record(c10::cuda::getCurrentCUDAStream(device_));
    before.block(side_);
    begin_ = at::cuda::CUDAEvent(cudaEventDefault);
    begin_.record(side_);
    const ncclDataType_t type = type_of(call.type);
    keep(call.is_sum ? ncclAllReduce(call.data, call.data, call.count, type, ncclSum, communicator_,
                                     side_.stream())
                     : ncclBroadcast(call.data, call.data, call.count, type, /*root=*/0,
                                     communicator_, side_.stream()));
  }

  std::uint64_t mark() override {
    const c10::cuda::CUDAGuard guard(device_);
    drop_passed();
    marks_.push_back({std::move(begin_), at::cuda::CUDAEvent(cudaEventDefault)});
    marks_.back().end.record(side_);
    return num_passed_ + marks_.size();
  }

  void count() override {
    const c10::cuda::CUDAGuard guard(device_);
    const c10::cuda::CUDAStreamGuard on_side(side_);
    num_marked_.fill_(static_cast<std::int64_t>(num_passed_ + marks_.size()));
    C10_CUDA_CHECK(cudaMemcpyAsync(num_reached_, num_marked_.const_data_ptr(), sizeof *num_reached_,
                                   cudaMemcpyDeviceToHost, side_.stream()));
  }

  std::uint64_t num_finished() override {
    return std::atomic_ref(*num_reached_).load(std::memory_order_acquire);
  }

  double seconds() override {
    const c10::cuda::CUDAGuard guard(device_);
    drop_passed();
    return seconds_;
  }

  void join(std::uint64_t mark) override {
    if (mark <= num_passed_) return;
    const c10::cuda::CUDAGuard guard(device_);
    marks_[mark - num_passed_ - 1].end.block(c10::cuda::getCurrentCUDAStream(device_));
  }

  void close(double patience_s) override {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
    const auto ready = [&] {
      while (state() == NcclState::kBusy && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return state() == NcclState::kReady;
    };
    const c10::cuda::CUDAGuard guard(device_);
    if (ready()) keep(ncclCommFinalize(communicator_));
    if (!ready()) return abort();
    ncclCommDestroy(communicator_);  // local, as the communicator is finalized
    communicator_ = nullptr;
    cudaFreeHost(num_reached_);  // waits for the GPU, so only here
    num_reached_ = nullptr;
  }

  void abort() override {
    if (communicator_ == nullptr) return;
    ncclCommAbort(communicator_);
    communicator_ = nullptr;
  }

 private:
  // Of one collective.
  struct Mark {
    at::cuda::CUDAEvent begin, end;
  };

  void drop_passed() {
    for (; !marks_.empty() && marks_.front().end.query(); ++num_passed_) {
      seconds_ += marks_.front().begin.elapsed_time(marks_.front().end) / 1000.0;
      marks_.pop_front();
    }
  }

  // The first failure stays.
  void keep(ncclResult_t result) {
    if (failure_ == ncclSuccess && result != ncclInProgress) failure_ = result;
  }

  const c10::DeviceIndex device_;
  c10::cuda::CUDAStream side_;
  ncclComm_t communicator_ = nullptr;
  ncclResult_t failure_ = ncclSuccess;
  at::cuda::CUDAEvent begin_;  // of the collective that has no mark yet
  std::deque<Mark> marks_;     // that the GPU was not seen to pass
  std::uint64_t num_passed_ = 0;
  double seconds_ = 0;                    // of those passed
  at::Tensor num_marked_;                 // on the GPU, set by the side stream
  std::uint64_t* num_reached_ = nullptr;  // its last value, in pinned memory
};

std::string device_fault(int device) {
  const cudaError_t status = cudaSetDevice(device);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  try {  // LibTorch has machine code for some architectures, which only a launch shows
    at::empty({1}, at::device({at::kCUDA, static_cast<c10::DeviceIndex>(device)})).fill_(1);
  } catch (const c10::Error& fault) {
    const std::string words = fault.what_without_backtrace();
    return words.substr(0, words.find('\n'));
  }
  return "";
}

long long peak_memory_bytes(int device) {
  const auto stats =
      c10::cuda::CUDACachingAllocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  return stats.reserved_bytes[0].peak;
}

void* new_pinned(int device, std::size_t bytes) {
  static_cast<void>(cudaSetDevice(device));
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess) return memory;
  static_cast<void>(cudaGetLastError());  // or the next check in LibTorch would report it
  return nullptr;
}

// A thread that has not used CUDA is on GPU 0, where freeing would make a context.
void free_pinned(int device, void* memory) {
  static_cast<void>(cudaSetDevice(device));
  static_cast<void>(cudaFreeHost(memory));
}

int runtime_version() {
  int version = 0;
  return cudaRuntimeGetVersion(&version) == cudaSuccess ? version : 0;
}

long cudnn_version() {
  return at::detail::getCUDAHooks().versionCuDNN();
}

int nccl_version() {
  int version = 0;
  return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

std::string make_nccl_id(std::string* fault) {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  if (result == ncclSuccess) return {id.internal, sizeof id.internal};
  *fault = in_words(result, nullptr);
  return "";
}

NcclGroup* make_nccl_group(const NcclSeat& seat) {
  return new NcclCommunicator(seat);
}

constexpr CudaModule kModule{kCudaModuleVersion, device_fault,    peak_memory_bytes, new_pinned,
                             free_pinned,        runtime_version, cudnn_version,     nccl_version,
                             make_nccl_id,       make_nccl_group};

}  // namespace

extern "C" const CudaModule* kiln_cuda_module() {
  return &kModule;
}

}  // namespace kiln
