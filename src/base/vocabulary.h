// Enums and small values shared by several rooms, and the option words for them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

enum class DeviceChoice { kAuto, kCuda, kCpu };

// What the network computes in. kFp32: float32. kTf32: the same, with all matrix products in TF32.
// kFp16, kBf16: mixed precision. Ranks that can do different ones agree on the first of these.
enum class Precision { kFp32, kTf32, kFp16, kBf16 };

inline constexpr std::array<std::string_view, 4> kPrecisionNames = {"fp32", "tf32", "fp16", "bf16"};

inline std::string precision_name(Precision precision) {
  return std::string(kPrecisionNames[static_cast<std::size_t>(precision)]);
}

// Empty for unknown words.
inline std::optional<Precision> precision_named(std::string_view word) {
  for (std::size_t i = 0; i < kPrecisionNames.size(); ++i)
    if (kPrecisionNames[i] == word) return static_cast<Precision>(i);
  return std::nullopt;
}

// What is cached between epochs. kBytes: files as stored. kDecoded: pixels.
enum class CachePolicy { kNone, kBytes, kDecoded, kAuto };

// none: center crop of the resized image. flip: the same, mirrored with probability 1/2. standard:
// a random crop, mirrored with probability 1/2. strong: standard, then one operation of
// TrivialAugmentWide, then random erasing with probability 1/4.
enum class Augment { kNone, kFlip, kStandard, kStrong };

inline constexpr std::array<std::string_view, 4> kAugmentNames = {"none", "flip", "standard",
                                                                  "strong"};

inline std::string augment_name(Augment augment) {
  return std::string(kAugmentNames[static_cast<std::size_t>(augment)]);
}

// Empty for unknown words.
inline std::optional<Augment> augment_named(std::string_view word) {
  for (std::size_t i = 0; i < kAugmentNames.size(); ++i)
    if (kAugmentNames[i] == word) return static_cast<Augment>(i);
  return std::nullopt;
}

// Whether every epoch uses a different crop of an image; otherwise its pixels are always the same,
// except for mirroring.
inline bool takes_random_parts(Augment augment) {
  return augment == Augment::kStandard || augment == Augment::kStrong;
}

// The network's input is (value - mean) / std for R, G, B scaled to 0 … 1.
struct Normalization {
  std::array<double, 3> mean{0.5, 0.5, 0.5};
  std::array<double, 3> std{0.5, 0.5, 0.5};
  bool operator==(const Normalization&) const = default;
};

// A host of a job, and its number of ranks.
struct RankHost {
  std::string name;
  int slots = 1;
};

}  // namespace kiln
