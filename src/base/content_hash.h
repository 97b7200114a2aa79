// A fast hash, 64 bit, of bytes that are not adversarial; the same on every machine of
// one byte order. A slow one for short texts is fnv1a() (base/files.h).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace kiln {

// The hash of bytes that come in pieces, whose lengths do not matter. SplitMix64's mixing step over
// eight bytes at a time, in four lanes because each step waits for the one before: any changed bit
// shows.
class ContentHash {
 public:
  // Of all the pieces, or 0 where the caller compares that number.
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
  std::array<char, sizeof(Lanes)> left_{};  // the beginning of a word for each lane
  std::size_t num_left_ = 0;
};

inline std::uint64_t content_hash(std::string_view bytes) {
  ContentHash hash(bytes.size());
  hash.add(bytes);
  return hash.value();
}

}  // namespace kiln
