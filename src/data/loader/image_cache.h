// Keeps files or decoded pixels in memory for later epochs, up to a limit. Entries are never
// evicted; what does not fit is not kept.
//
// Thread-safe. If two threads keep the same sample, the first one wins.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace kiln {

// kBytes: files as stored. kDecoded: pixels at output size, before the operations that are drawn
// anew in every epoch; only for plans that allow it (can_be_kept()).
enum class CacheKind { kNone, kBytes, kDecoded };

class ImageCache {
  struct Entry {
    std::atomic<const char*> begin = nullptr;  // written last
    std::size_t size = 0;
  };

 public:
  // For samples 0 to num_items - 1. `limit_bytes` includes the cache's own tables.
  ImageCache(CacheKind kind, std::size_t num_items, std::size_t limit_bytes);

  // A limit large enough for `num_items` entries of `bytes_each` bytes.
  static std::size_t bytes_for(std::size_t num_items, std::size_t bytes_each);
  // The size of the table alone, which is allocated up front.
  static std::size_t table_bytes(std::size_t num_items) { return num_items * sizeof(Entry); }

  CacheKind kind() const { return kind_; }
  // The entry of a sample, valid as long as the cache; empty if not kept.
  std::string_view find(std::size_t sample) const;
  // Stores a copy if it fits.
  void keep(std::size_t sample, std::string_view what);

  std::size_t num_kept() const { return num_kept_; }
  std::size_t memory_bytes() const;

 private:
  char* allocate(std::size_t size);  // call under mutex_; nullptr: it does not fit

  const CacheKind kind_;
  const std::size_t limit_bytes_;
  std::vector<Entry> entries_;
  std::atomic<std::size_t> num_kept_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_used_ = 0, block_size_ = 0, memory_bytes_ = 0;
};

}  // namespace kiln
