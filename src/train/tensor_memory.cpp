#include "train/tensor_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kLeastBytes = 256 << 10;  // of a tensor; smaller ones are glibc's
constexpr std::size_t kPage = 4 << 10;
constexpr long long kReserve = 64LL << 20;  // left to everything else

// One range of addresses, whose pages come into being when they are first written. Freed pieces
// are joined with free neighbors; a tensor gets the smallest that is large enough, or else the
// part in use grows.
class TensorMemory final : public c10::Allocator {
 public:
  // nullptr if the system does not give the addresses, or limits them.
  static TensorMemory* make() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY) return nullptr;
    const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * kPage;
    void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    ::madvise(start, bytes, MADV_HUGEPAGE);
    return instance_ = new TensorMemory(static_cast<char*>(start), bytes);  // outlives all tensors
  }

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes < kLeastBytes) return c10::GetDefaultCPUAllocator()->allocate(bytes);
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    const std::scoped_lock lock(mutex_);
    const std::size_t place = take(size);
    used_.emplace(place, size);
    char* data = start_ + place;
    return {data, data, raw_deleter(), c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* data) {
      if (!instance_->give_back(static_cast<char*>(data)))
        c10::GetDefaultCPUAllocator()->raw_deleter()(data);
    };
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  TensorMemory(char* start, std::size_t bytes) : start_(start), bytes_(bytes) {}

  std::size_t take(std::size_t size) {
    const auto fit = by_size_.lower_bound({size, 0});
    if (fit == by_size_.end()) grow(size);
    const auto [found, place] = *by_size_.lower_bound({size, 0});
    erase(place, found);
    if (found > size) insert(place + size, found - size);
    return place;
  }

  // Until the last free piece has `size` bytes.
  void grow(std::size_t size) {
    std::size_t place = end_;
    if (!free_.empty()) {
      const auto [last, its_size] = *std::prev(free_.end());
      if (last + its_size == end_) place = last;
    }
    const std::size_t end = place + size;
    const long long available = available_memory_bytes();
    const auto missing = static_cast<long long>(end - end_);
    if (end > bytes_ || available < missing + kReserve)
      throw Error(ErrorCode::kModuleOutOfMemory,
                  "Out of memory on the CPU: " + bytes_text(missing) +
                      " more are needed for a tensor, and " + bytes_text(available) +
                      " are available. Use a smaller --batch-size or smaller images, or a machine "
                      "with more memory.");
    if (place < end_) erase(place, end_ - place);
    insert(place, size);
    end_ = end;
  }

  // False if it is not of this memory.
  bool give_back(char* data) {
    if (data < start_ || data >= start_ + bytes_) return false;
    const std::scoped_lock lock(mutex_);
    auto place = static_cast<std::size_t>(data - start_);
    std::size_t size = used_.extract(place).mapped();
    const auto after = free_.upper_bound(place);
    if (after != free_.begin()) {
      const auto [before, its_size] = *std::prev(after);
      if (before + its_size == place) {
        erase(before, its_size);
        place = before;
        size += its_size;
      }
    }
    if (const auto next = free_.find(place + size); next != free_.end()) {
      const std::size_t more = next->second;
      erase(place + size, more);
      size += more;
    }
    insert(place, size);
    return true;
  }

  void insert(std::size_t place, std::size_t size) {
    free_.emplace(place, size);
    by_size_.emplace(size, place);
  }
  void erase(std::size_t place, std::size_t size) {
    free_.erase(place);
    by_size_.erase({size, place});
  }

  static inline TensorMemory* instance_ = nullptr;  // LibTorch frees by the address alone

  char* const start_;
  const std::size_t bytes_;
  std::mutex mutex_;
  std::size_t end_ = 0;                                    // of what was ever used
  std::unordered_map<std::size_t, std::size_t> used_;      // place -> size
  std::map<std::size_t, std::size_t> free_;                // place -> size
  std::set<std::pair<std::size_t, std::size_t>> by_size_;  // size, place of those in free_
};

}  // namespace

void keep_tensor_memory() {
  static TensorMemory* const memory = TensorMemory::make();
  if (memory != nullptr) c10::SetCPUAllocator(memory);
}

}  // namespace kiln
