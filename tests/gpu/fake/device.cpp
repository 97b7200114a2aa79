#include "gpu/fake/device.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <utility>

namespace kiln::fake {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr int kPoison = 0xff;  // NaN as floating point
constexpr long long kSmallMemory = 140 << 20;

thread_local c10::StreamId current_stream = 0;

// Streams of all devices: a process uses one.
Queue& queue_of(c10::StreamId stream) {
  static std::mutex mutex;
  static auto& all = *new std::map<c10::StreamId, Queue>;
  const std::lock_guard lock(mutex);
  return all[stream];
}

std::atomic<long long> bytes_in_use{0}, max_bytes{0};

void* poisoned(std::size_t bytes) {
  void* data = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, kPoison, bytes);
  return data;
}

struct Block {
  void* data;
  std::size_t bytes;
  c10::StreamId stream;
};

void release(void* context) {
  const Block block = *static_cast<Block*>(context);
  delete static_cast<Block*>(context);
  give_bytes(block.bytes);
  const auto poison = [block] {
    std::memset(block.data, kPoison, block.bytes);
    std::free(block.data);
  };
  Queue& queue = queue_of(block.stream);
  if (queue.is_idle()) return poison();
  queue.push(poison);
}

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    take_bytes(bytes);
    auto* block = new Block{poisoned(bytes), bytes, current_stream};
    return {block->data, block, release, c10::Device(c10::kCUDA, current_device)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = new_pinned(0, bytes);
    return {data, data, free_pinned, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
};

std::mutex pinned_mutex;
std::map<const char*, std::size_t> pinned_blocks;

// LibTorch's view of devices, streams and events.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  using Device = c10::Device;
  using Stream = c10::Stream;

  static Stream numbered(Device device, c10::StreamId id) {
    const auto index = device.index() >= 0 ? device.index() : current_device;
    return Stream(Stream::UNSAFE, Device(c10::kCUDA, index), id);
  }
  static SharedEvent& event_of(void* event) { return *static_cast<SharedEvent*>(event); }

  c10::DeviceType type() const override { return c10::kCUDA; }
  Device exchangeDevice(Device next) const override {
    const Device before = getDevice();
    uncheckedSetDevice(next);
    return before;
  }
  Device getDevice() const override { return Device(c10::kCUDA, current_device); }
  void setDevice(Device next) const override { uncheckedSetDevice(next); }
  void uncheckedSetDevice(Device next) const noexcept override {
    if (next.index() >= 0) current_device = next.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return num_devices(); }
  Stream getStream(Device device) const override { return numbered(device, current_stream); }
  Stream getDefaultStream(Device device) const override { return numbered(device, 0); }
  Stream getStreamFromGlobalPool(Device device, bool) const override {
    static std::atomic<c10::StreamId> next{1};
    return numbered(device, next++);
  }
  Stream exchangeStream(Stream next) const override {
    return numbered(next.device(), std::exchange(current_stream, next.id()));
  }
  void synchronizeStream(const Stream& stream) const override {
    note("wait", stream.id() == 0 ? "main stream" : "side stream");
    queue_of(stream.id()).drain();
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const Stream&) const override {}
  void record(void** event, const Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new SharedEvent;
    event_of(*event) = queue_of(stream.id()).mark();
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<SharedEvent*>(event);
  }
  void block(void* event, const Stream& stream) const override {
    if (setting("OMIT_WAIT", 0) != 0) return;
    queue_of(stream.id()).push([kept = event_of(event)] { kept->wait(); });
  }
  bool queryEvent(void* event) const override { return event_of(event)->is_done(); }
  void synchronizeEvent(void* event) const override {
    if (!event_of(event)->is_done()) note("wait", "event");
    event_of(event)->wait();
  }
  double elapsedTime(void* one, void* two, c10::DeviceIndex) const override {
    return 1000 * event_of(one)->seconds_until(*event_of(two));
  }
};

struct Account {
  std::mutex mutex;
  std::map<std::string, long> counts;
  ~Account() {
    const char* path = std::getenv("KILN_STAND_IN_REPORT");
    if (path == nullptr) return;
    std::ofstream file(std::string(path) + "." + std::to_string(::getpid()));
    for (const auto& [what, count] : counts) file << count << " " << what << "\n";
  }
};

}  // namespace

long setting(const char* name, long otherwise) {
  const char* text = std::getenv((std::string("KILN_STAND_IN_") + name).c_str());
  return text == nullptr ? otherwise : std::atol(text);
}

c10::DeviceIndex num_devices() {
  return static_cast<c10::DeviceIndex>(setting("DEVICES", 1));
}

void note(const std::string& kind, const std::string& name) {
  static Account account;
  const std::lock_guard lock(account.mutex);
  ++account.counts[kind + " " + name];
}

void Queue::push(std::function<void()> task, long delay_us) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  tasks_.push_back([task = std::move(task), delay_us] {
    if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    task();
  });
  ++num_pushed_;
  changed_.notify_all();
}

Queue::~Queue() {
  if (!thread_.joinable()) return;
  push([this] { ends_ = true; });
  thread_.join();
}

SharedEvent Queue::mark() {
  auto event = std::make_shared<Event>();
  push([event] { event->set(); });
  return event;
}

void Queue::drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, until = num_pushed_] { return num_done_ >= until; });
}

bool Queue::is_idle() {
  const std::lock_guard lock(mutex_);
  return num_done_ == num_pushed_;
}

void Queue::run() {
  std::unique_lock lock(mutex_);
  for (; !ends_; changed_.notify_all()) {
    changed_.wait(lock, [&] { return !tasks_.empty(); });
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
    ++num_done_;
  }
}

Queue& current_queue() {
  return queue_of(current_stream);
}

c10::Allocator& memory() {
  static DeviceMemory allocator;
  return allocator;
}

long long peak_bytes() {
  return max_bytes;
}

void take_bytes(std::size_t bytes) {
  static const char* const settings = std::getenv("PYTORCH_CUDA_ALLOC_CONF");
  static const bool is_small =
      settings != nullptr && std::strstr(settings, "per_process_memory_fraction") != nullptr;
  const long long all = bytes_in_use += static_cast<long long>(bytes);
  max_bytes = std::max<long long>(max_bytes, all);
  if (!is_small || all <= kSmallMemory) return;
  give_bytes(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes >> 20,
                   ".00 MiB. GPU ", int{current_device}, " has no memory left.");
}

void give_bytes(std::size_t bytes) {
  bytes_in_use -= static_cast<long long>(bytes);
}

c10::Allocator& pinned_memory() {
  static PinnedMemory allocator;
  return allocator;
}

void* new_pinned(int, std::size_t bytes) {
  void* data = poisoned(bytes);
  const std::lock_guard lock(pinned_mutex);
  pinned_blocks[static_cast<const char*>(data)] = bytes;
  return data;
}

void free_pinned(void* data) {
  while (setting("FREE_HANGS", 0) != 0) ::pause();
  const std::lock_guard lock(pinned_mutex);
  pinned_blocks.erase(static_cast<const char*>(data));
  std::free(data);
}

bool is_pinned(const void* data) {
  const std::lock_guard lock(pinned_mutex);
  auto after = pinned_blocks.upper_bound(static_cast<const char*>(data));
  return after != pinned_blocks.begin() &&
         static_cast<const char*>(data) < std::prev(after)->first + std::prev(after)->second;
}

}  // namespace kiln::fake

namespace c10 {
namespace {
REGISTER_ALLOCATOR(kCUDA, &kiln::fake::memory())
const impl::DeviceGuardImplRegistrar registrar(kCUDA, new kiln::fake::Guard);
}  // namespace
}  // namespace c10
