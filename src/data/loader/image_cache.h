// What was read or decoded once, kept in memory for the next epochs, never beyond a limit. What is
// kept stays; what does not fit is left out.
//
// Any number of threads may look up and keep; of two that keep the same sample, one is first.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace kiln {

// kBytes: files as stored. kDecoded: pixels as a batch takes them, before mirroring; for plans that
// use the same pixels in every epoch (pixel_plan.h).
enum class CacheKind { kNone, kBytes, kDecoded };

class ImageCache {
  struct Entry {
    std::atomic<const char*> begin = nullptr;  // written last
    std::size_t size = 0;
  };

 public:
  // For samples 0 to num_items - 1. `limit_bytes` holds the cache's own tables too.
  ImageCache(CacheKind kind, std::size_t num_items, std::size_t limit_bytes);

  // A limit within which `num_items` of `bytes_each` bytes fit.
  static std::size_t bytes_for(std::size_t num_items, std::size_t bytes_each);
  // Of the table alone, which is there before anything is kept.
  static std::size_t table_bytes(std::size_t num_items) { return num_items * sizeof(Entry); }

  CacheKind kind() const { return kind_; }
  // Empty when it is not kept. Valid as long as the cache.
  std::string_view find(std::size_t sample) const;
  // Keeps a copy where there is buffer for it.
  void keep(std::size_t sample, std::string_view what);

  std::size_t num_kept() const { return num_kept_; }
  std::size_t memory_bytes() const;

 private:
  char* room_for(std::size_t size);  // under mutex_; nullptr: none

  const CacheKind kind_;
  const std::size_t limit_bytes_;
  std::vector<Entry> entries_;
  std::atomic<std::size_t> num_kept_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_used_ = 0, block_size_ = 0, memory_bytes_ = 0;
};

}  // namespace kiln
