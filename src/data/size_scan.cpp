#include "data/size_scan.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "data/decode.h"
#include "data/image_bytes.h"

namespace kiln {
namespace {

constexpr std::size_t kPrefixBytes = 64 * 1024;

// Most headers lie in the first 64 KiB; behind large embedded profiles the whole file is needed.
std::optional<ImageSize> size_of(const ImageSet& set, std::size_t i, std::string& buffer) {
  for (const std::size_t limit : {kPrefixBytes, SIZE_MAX}) {
    try {
      read_first_bytes(set, i, limit, buffer);
      return read_image_size(buffer);
    } catch (const ImageFault&) {
      if (buffer.size() < limit) break;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::optional<ImageSize>> scan_sizes(const ImageSet& set, int num_threads) {
  std::vector<std::optional<ImageSize>> sizes(set.items.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    std::string buffer;
    for (std::size_t i = next++; i < sizes.size(); i = next++) {
      const ImageItem& item = set.items[i];
      sizes[i] = item.size ? item.size : size_of(set, i, buffer);
    }
  };
  std::vector<std::jthread> threads;
  for (int t = 1; t < num_threads; ++t) threads.emplace_back(work);
  work();
  threads.clear();
  return sizes;
}

std::optional<ImageSize> common_size(const std::vector<std::optional<ImageSize>>& sizes) {
  std::optional<ImageSize> common;
  for (const auto& size : sizes) {
    if (!size) continue;
    if (common && *common != *size) return std::nullopt;
    common = size;
  }
  return common;
}

}  // namespace kiln
