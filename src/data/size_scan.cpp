#include "data/size_scan.h"

#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "base/files.h"
#include "data/decode.h"

namespace kiln {
namespace {

constexpr std::size_t kPrefixBytes = 64 * 1024;
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;  // the loader reads no larger one

std::string read_prefix(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kPrefixBytes, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// Most headers lie in the first 64 KiB; behind large embedded profiles the whole file is needed.
std::optional<ImageSize> size_of(const std::filesystem::path& path) {
  try {
    return read_image_size(read_prefix(path));
  } catch (const ImageFault&) {
  }
  try {
    return read_image_size(read_file(path, kMaxFileBytes));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::optional<ImageSize>> scan_sizes(const ImageSet& set, int num_threads) {
  std::vector<std::optional<ImageSize>> sizes(set.items.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < sizes.size(); i = next++) {
      const ImageItem& item = set.items[i];
      sizes[i] = item.size ? item.size : size_of(set.path_of(item));
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
