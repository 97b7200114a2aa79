// Small values that several rooms speak of: the words of options, and what they mean.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

enum class DeviceChoice { kAuto, kCuda, kCpu };

// What is kept of images between epochs. kBytes: files as stored. kDecoded: pixels.
enum class CachePolicy { kNone, kBytes, kDecoded, kAuto };

// none: the center of the resized image. flip: that, mirrored half the time. standard: a random
// part of the image, mirrored half the time. strong: standard, then one operation of
// TrivialAugmentWide, then a rectangle erased a quarter of the time.
enum class Augment { kNone, kFlip, kStandard, kStrong };

inline constexpr std::array<std::string_view, 4> kAugmentNames = {"none", "flip", "standard",
                                                                  "strong"};

inline std::string augment_name(Augment augment) {
  return std::string(kAugmentNames[static_cast<std::size_t>(augment)]);
}

// Empty for other words.
inline std::optional<Augment> augment_named(std::string_view word) {
  for (std::size_t i = 0; i < kAugmentNames.size(); ++i)
    if (kAugmentNames[i] == word) return static_cast<Augment>(i);
  return std::nullopt;
}

// Whether every epoch takes another part of an image; otherwise its pixels are the same each time,
// but for mirroring.
inline bool takes_random_parts(Augment augment) {
  return augment == Augment::kStandard || augment == Augment::kStrong;
}

// A network takes (value - mean) / std, of R, G, B as 0 to 1.
struct Normalization {
  std::array<double, 3> mean{0.5, 0.5, 0.5};
  std::array<double, 3> std{0.5, 0.5, 0.5};
  bool operator==(const Normalization&) const = default;
};

// A host of a job, and how many ranks it takes.
struct RankHost {
  std::string name;
  int slots = 1;
};

}  // namespace kiln
