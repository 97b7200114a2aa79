// libkiln_cuda.so of the stand-in device: LibTorch's hooks, and sums between processes in place of
// NCCL's.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "gpu/fake/device.h"
#include "modules/cuda/module.h"

namespace kiln::fake {
namespace {

constexpr int kCuda = 13000;
constexpr long kCudnn = 91900;
constexpr int kNccl = 22809;
constexpr std::size_t kIdLength = 128;

// At the beginning of the memory that the ranks share.
struct Board {
  std::atomic<int> num_arrived{0}, is_aborted{0};
  std::atomic<std::uint64_t> round{0};
};

class Group final : public NcclGroup {
 public:
  explicit Group(const NcclSeat& seat)
      : seat_(seat), name_("/" + seat.id.substr(0, seat.id.find('\0'))) {
    const std::size_t bytes = kBoard + kPiece * static_cast<std::size_t>(seat.size);
    const int file = ::shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0)
      throw std::runtime_error("no shared memory");
    void* shared = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (shared == MAP_FAILED) throw std::runtime_error("no shared memory");
    memory_ = static_cast<char*>(shared);
    side_.push([this] { is_set_up_ = meet(); });
  }

  NcclState state() override {
    if (board().is_aborted != 0 || has_failed_) return NcclState::kFailed;
    return is_set_up_ && ++num_asked_ % 3 == 0 ? NcclState::kReady : NcclState::kBusy;
  }
  std::string fault() override { return "remote process exited or there was a network error"; }

  void start(const NcclCall& call) override {
    note("sum", call.is_sum ? "all-reduce" : "broadcast");
    begun_.push_back(std::make_shared<Event>());
    side_.push([before = current_queue().mark(), begin = begun_.back()] {
      before->wait();
      begin->set();
    });
    static const long delay_us = setting("SUM_US", 20000);
    side_.push([this, call] { run(call); }, delay_us);
  }
  std::uint64_t mark() override {
    marks_.push_back(side_.mark());
    return marks_.size();
  }
  void count() override {
    note("count", "sums");
    side_.push([this, number = marks_.size()] { num_reached_ = number; });
  }
  std::uint64_t num_finished() override { return num_reached_; }
  double seconds() override {
    for (; num_passed_ < marks_.size() && marks_[num_passed_]->is_done(); ++num_passed_)
      seconds_ += begun_[num_passed_]->seconds_until(*marks_[num_passed_]);
    return seconds_;
  }
  void join(std::uint64_t mark) override {
    if (mark > 0 && setting("OMIT_JOIN", 0) == 0)
      current_queue().push([event = marks_[mark - 1]] { event->wait(); });
  }
  void close(double) override {
    side_.drain();
    ::shm_unlink(name_.c_str());
  }
  void abort() override {
    board().is_aborted = 1;
    side_.drain();
    ::shm_unlink(name_.c_str());
  }

 private:
  static constexpr std::size_t kBoard = 4096, kPiece = 1 << 20;

  Board& board() { return *reinterpret_cast<Board*>(memory_); }
  char* piece_of(int rank) { return memory_ + kBoard + kPiece * static_cast<std::size_t>(rank); }

  // Waits for all ranks; false if one has aborted.
  bool meet() {
    const std::uint64_t round = board().round;
    if (board().num_arrived.fetch_add(1) + 1 == seat_.size) {
      board().num_arrived = 0;
      board().round = round + 1;
      return true;
    }
    while (board().round == round && board().is_aborted == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    return board().round != round;
  }

  void run(const NcclCall& call) {
    static constexpr std::array kTypes{at::kFloat, at::kDouble, at::kLong};
    const auto type = kTypes[static_cast<std::size_t>(call.type)];
    const std::size_t size = c10::elementSize(type), most = kPiece / size;
    for (std::size_t at = 0; at < call.count; at += most) {
      const auto count = static_cast<std::int64_t>(std::min(most, call.count - at));
      const auto values = [&](void* memory) { return at::from_blob(memory, {count}, type); };
      const at::Tensor mine = values(static_cast<char*>(call.data) + at * size);
      values(piece_of(seat_.rank)).copy_(mine);
      has_failed_ = !meet();
      if (has_failed_) return;
      at::Tensor result = values(piece_of(0)).clone();
      for (int rank = 1; call.is_sum && rank < seat_.size; ++rank) result += values(piece_of(rank));
      mine.copy_(result);
      has_failed_ = !meet();
      if (has_failed_) return;
    }
  }

  const NcclSeat seat_;
  const std::string name_;
  char* memory_ = nullptr;
  std::atomic<bool> is_set_up_{false}, has_failed_{false};
  int num_asked_ = 0;
  std::vector<SharedEvent> begun_, marks_;
  std::atomic<std::uint64_t> num_reached_ = 0;
  std::size_t num_passed_ = 0;
  double seconds_ = 0;
  Queue side_;  // ends first
};

struct Hooks final : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
  at::DeviceIndex deviceCount() const override { return num_devices(); }
  int getNumGPUs() const override { return num_devices(); }
  at::DeviceIndex current_device() const override { return fake::current_device; }
  at::DeviceIndex getCurrentDevice() const override { return fake::current_device; }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  void deviceSynchronize(at::DeviceIndex) const override {
    note("wait", "device");
    current_queue().drain();
  }
};

std::string new_id(std::string*) {
  std::string id = "kiln-stand-in-" + std::to_string(::getpid()) + "-" +
                   std::to_string(Clock::now().time_since_epoch().count());
  id.resize(kIdLength);
  return id;
}

std::string device_fault(int device) {
  current_device = static_cast<c10::DeviceIndex>(device);
  return device < num_devices() ? "" : "invalid device ordinal";
}

constexpr CudaModule kModule{kCudaModuleVersion,
                             device_fault,
                             [](int) { return peak_bytes(); },
                             new_pinned,
                             [](int, void* memory) { free_pinned(memory); },
                             [] { return kCuda; },
                             [] { return kCudnn; },
                             [] { return kNccl; },
                             new_id,
                             [](const NcclSeat& seat) -> NcclGroup* { return new Group(seat); }};

}  // namespace
}  // namespace kiln::fake

namespace at {
namespace {
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, kiln::fake::Hooks)
}
}  // namespace at

extern "C" const kiln::CudaModule* kiln_cuda_module() {
  return &kiln::fake::kModule;
}
