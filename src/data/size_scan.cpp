#include "data/size_scan.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>

#include "base/in_parallel.h"
#include "data/decode.h"
#include "data/folder_entries.h"
#include "data/image_bytes.h"

namespace kiln {
namespace {

constexpr std::size_t kPrefixBytes = 64 * 1024;
constexpr std::size_t kPortion = 64;  // images between two looks at the shared counter

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

std::size_t scan_sizes(ImageSet& set, SizesWanted wanted) {
  std::atomic<std::size_t> num_filled = 0;
  std::atomic<std::uint64_t> first_size = 0;
  std::atomic<bool> differ = false;
  const auto compare = [&](ImageSize size) {
    const auto packed =
        static_cast<std::uint64_t>(size.height) << 32 | static_cast<std::uint32_t>(size.width);
    std::uint64_t first = 0;
    if (!first_size.compare_exchange_strong(first, packed) && first != packed) differ = true;
  };
  in_parallel((set.items.size() + kPortion - 1) / kPortion, kScanThreads, [&](std::size_t portion) {
    std::string buffer;
    const std::size_t end = std::min(set.items.size(), (portion + 1) * kPortion);
    for (std::size_t i = portion * kPortion; i < end; ++i) {
      if (wanted == SizesWanted::kCommon && differ) return;
      std::optional<ImageSize> size = set.items[i].size;
      if (!size && (size = size_of(set, i, buffer))) {
        set.items.set_size(i, *size);
        ++num_filled;
      }
      if (size) compare(*size);
    }
  });
  return num_filled;
}

std::optional<ImageSize> common_size(const std::vector<const ImageSet*>& sets) {
  std::optional<ImageSize> common;
  for (const ImageSet* set : sets) {
    for (const ImageItem& item : set->items) {
      if (!item.size) continue;
      if (common && *common != *item.size) return std::nullopt;
      common = item.size;
    }
  }
  return common;
}

}  // namespace kiln
