#include "store/seen_images.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "store/byte_reader.h"

namespace kiln {
namespace {

constexpr std::string_view kMagic = "KILNSEEN";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = kMagic.size() + sizeof kVersion + 2 * sizeof(std::uint64_t);
constexpr std::size_t kHashBytes = 6;

std::uint64_t shortened(std::uint64_t content_hash) {
  return content_hash >> 8 * (sizeof content_hash - kHashBytes);
}

std::vector<std::uint64_t> to_list(std::vector<std::uint64_t> hashes) {
  for (std::uint64_t& hash : hashes) hash = shortened(hash);
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  return hashes;
}

void append(std::string& bytes, const std::vector<std::uint64_t>& list) {
  for (const std::uint64_t hash : list)
    for (std::size_t i = 0; i < kHashBytes; ++i) bytes.push_back(static_cast<char>(hash >> 8 * i));
}

[[noreturn]] void fail(const std::string& where, const std::string& fault) {
  throw Error(ErrorCode::kInvalidModelDirectory,
              "'" + where + "' is not a valid list of seen images: " + fault +
                  ". Copy the complete model directory again, or delete this file.");
}

// Removes the first `count` hashes from `bytes`, which must hold at least that many.
std::vector<std::uint64_t> take_list(std::string_view& bytes, std::uint64_t count,
                                     const std::string& where) {
  std::vector<std::uint64_t> list(count);
  for (std::size_t at = 0; at < list.size(); ++at) {
    for (std::size_t i = 0; i < kHashBytes; ++i)
      list[at] |= std::uint64_t{static_cast<unsigned char>(bytes[at * kHashBytes + i])} << 8 * i;
    if (at > 0 && list[at] <= list[at - 1]) fail(where, "its hashes are not in ascending order");
  }
  bytes.remove_prefix(list.size() * kHashBytes);
  return list;
}

}  // namespace

bool SeenImages::was_trained_on(std::uint64_t content_hash) const {
  return std::binary_search(train.begin(), train.end(), shortened(content_hash));
}

bool SeenImages::was_chosen_on(std::uint64_t content_hash) const {
  return std::binary_search(valid.begin(), valid.end(), shortened(content_hash));
}

SeenImages make_seen_images(std::vector<std::uint64_t> train, std::vector<std::uint64_t> valid) {
  return {to_list(std::move(train)), to_list(std::move(valid))};
}

std::string pack_seen_images(const SeenImages& images) {
  std::string bytes(kMagic);
  bytes.reserve(kHeaderBytes + (images.train.size() + images.valid.size()) * kHashBytes);
  append_little_endian(bytes, kVersion);
  append_little_endian(bytes, std::uint64_t{images.train.size()});
  append_little_endian(bytes, std::uint64_t{images.valid.size()});
  append(bytes, images.train);
  append(bytes, images.valid);
  return bytes;
}

SeenImages parse_seen_images(std::string_view bytes, const std::string& where) {
  if (!bytes.starts_with(kMagic)) fail(where, "it does not begin with " + std::string(kMagic));
  if (bytes.size() < kHeaderBytes) fail(where, "it is truncated");
  const auto version = little_endian<std::uint32_t>(bytes, kMagic.size(), "version");
  if (version != kVersion)
    fail(where, "its version is " + std::to_string(version) +
                    ", but this program supports version " + std::to_string(kVersion));
  constexpr std::size_t kCounts = kMagic.size() + sizeof kVersion;
  const auto num_train = little_endian<std::uint64_t>(bytes, kCounts, "count");
  const auto num_valid = little_endian<std::uint64_t>(bytes, kCounts + sizeof num_train, "count");
  bytes.remove_prefix(kHeaderBytes);
  const std::uint64_t num_there = bytes.size() / kHashBytes;
  if (num_train > num_there || num_valid != num_there - num_train || bytes.size() % kHashBytes != 0)
    fail(where, "it has " + std::to_string(bytes.size()) + " bytes of hashes, not " +
                    std::to_string(num_train) + " and " + std::to_string(num_valid) + " of " +
                    std::to_string(kHashBytes) + " bytes");
  SeenImages images;
  images.train = take_list(bytes, num_train, where);
  images.valid = take_list(bytes, num_valid, where);
  return images;
}

}  // namespace kiln
