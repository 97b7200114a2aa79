// A fast 64-bit hash for non-adversarial data; equal on all machines of the same byte order. For
// short texts there is the slower fnv1a() (base/files.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kiln {

// Hashes bytes that arrive in pieces; the result does not depend on how they are divided. Applies
// SplitMix64's mixing step to eight bytes at a time, in four independent lanes because each step
// depends on the previous one. Any changed bit changes the hash.
class ContentHash {
 public:
  // `num_bytes` is the total length, or 0 if the caller compares lengths itself.
  explicit ContentHash(std::uint64_t num_bytes) : num_bytes_(num_bytes) {}

  void add(std::string_view bytes) {
    if (num_left_ > 0) {
      const std::size_t count = std::min(left_.size() - num_left_, bytes.size());
      keep(bytes.substr(0, count));
      bytes.remove_prefix(count);
      if (num_left_ < left_.size()) return;
      mix(lanes_, left_.data());
      num_left_ = 0;
    }
    Lanes lanes = lanes_;  // in registers
    for (; bytes.size() >= left_.size(); bytes.remove_prefix(left_.size()))
      mix(lanes, bytes.data());
    lanes_ = lanes;
    keep(bytes);
  }

  std::uint64_t value() const {
    Lanes lanes = lanes_;
    std::array<char, sizeof(Lanes)> last{};
    std::copy_n(left_.begin(), num_left_, last.begin());
    mix(lanes, last.data());
    std::uint64_t hash = num_bytes_;
    for (const std::uint64_t lane : lanes) hash = mixed(hash, lane);
    return hash;
  }

 private:
  using Lanes = std::array<std::uint64_t, 4>;

  void keep(std::string_view bytes) {
    std::copy(bytes.begin(), bytes.end(), left_.data() + num_left_);
    num_left_ += bytes.size();
  }

  static void mix(Lanes& lanes, const char* bytes) {
    Lanes words;
    std::memcpy(words.data(), bytes, sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mixed(lanes[i], words[i]);
  }

  static std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9ULL;
    return hash ^ hash >> 27;
  }

  std::uint64_t num_bytes_;
  Lanes lanes_{};
  std::array<char, sizeof(Lanes)> left_{};  // bytes of a block that is not complete yet
  std::size_t num_left_ = 0;
};

inline std::uint64_t content_hash(std::string_view bytes) {
  ContentHash hash(bytes.size());
  hash.add(bytes);
  return hash.value();
}

}  // namespace kiln
