#include "data/loader/image_cache.h"

#include <algorithm>
#include <cstring>

namespace kiln {
namespace {

constexpr std::size_t kBlock = std::size_t{4} << 20;

}  // namespace

ImageCache::ImageCache(CacheKind kind, std::size_t num_items, std::size_t limit_bytes)
    : kind_(kind),
      limit_bytes_(limit_bytes),
      entries_(kind == CacheKind::kNone || table_bytes(num_items) > limit_bytes ? 0 : num_items),
      memory_bytes_(table_bytes(entries_.size())) {}

// The last block is for entries that two threads keep at once.
std::size_t ImageCache::bytes_for(std::size_t num_items, std::size_t bytes_each) {
  const std::size_t block = std::max(kBlock, bytes_each);
  const std::size_t in_block = block / std::max<std::size_t>(bytes_each, 1);
  const std::size_t num_blocks = (num_items + in_block - 1) / in_block + 1;
  return table_bytes(num_items) + num_blocks * block;
}

std::string_view ImageCache::find(std::size_t sample) const {
  if (sample >= entries_.size()) return {};
  const char* begin = entries_[sample].begin.load(std::memory_order_acquire);
  return begin == nullptr ? std::string_view() : std::string_view(begin, entries_[sample].size);
}

char* ImageCache::allocate(std::size_t size) {
  if (blocks_.empty() || block_size_ - block_used_ < size) {
    const std::size_t left = limit_bytes_ - memory_bytes_;
    const std::size_t block = std::max(size, std::min(kBlock, left));
    if (block > left) return nullptr;
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(block));
    block_size_ = block;
    block_used_ = 0;
    memory_bytes_ += block;
  }
  char* buffer = blocks_.back().get() + block_used_;
  block_used_ += size;
  return buffer;
}

void ImageCache::keep(std::size_t sample, std::string_view what) {
  if (sample >= entries_.size() || what.empty() || entries_[sample].begin.load() != nullptr) return;
  char* buffer = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    buffer = allocate(what.size());
  }
  if (buffer == nullptr) return;
  std::memcpy(buffer, what.data(), what.size());
  const std::scoped_lock lock(mutex_);
  if (entries_[sample].begin.load() != nullptr) return;  // another thread was first
  entries_[sample].size = what.size();
  entries_[sample].begin.store(buffer, std::memory_order_release);
  ++num_kept_;
}

std::size_t ImageCache::memory_bytes() const {
  const std::scoped_lock lock(mutex_);
  return memory_bytes_;
}

}  // namespace kiln
