// Enums and small values that several folders of src/ share, and the option words for them.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

// What images are packed into.
enum class ShardFormat { kTar, kTfRecord, kRecordIo };

// What is done with the EXIF orientation of image files, with which cameras say how they were held:
// kApply turns pictures upright.
enum class Exif { kIgnore, kApply };

inline std::string exif_name(Exif exif) {
  return exif == Exif::kApply ? "apply" : "ignore";
}
// Empty for unknown words.
inline std::optional<Exif> exif_named(std::string_view word) {
  for (const Exif exif : {Exif::kIgnore, Exif::kApply})
    if (exif_name(exif) == word) return exif;
  return std::nullopt;
}

enum class DeviceChoice { kAuto, kCuda, kCpu };

// The number format of the network's computation. kFp32: float32. kTf32: float32, with all matrix
// products in TF32. kFp16, kBf16: mixed precision. Ranks that support different ones agree on the
// first of them in this order.
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

// What is cached between epochs. kBytes: files as stored. kDecoded: decoded pixels.
enum class CachePolicy { kNone, kBytes, kDecoded, kAuto };

// Which part of the network is not trained. kBackbone: everything except the linear layers at its
// end. kNorm: BatchNorm.
enum class Freeze { kNone, kBackbone, kNorm };

// The network's input is (value - mean) / std for R, G, B scaled to [0, 1].
struct Normalization {
  std::array<double, 3> mean{0.5, 0.5, 0.5};
  std::array<double, 3> std{0.5, 0.5, 0.5};
  bool operator==(const Normalization&) const = default;
};

// A host of a job and its number of ranks.
struct RankHost {
  std::string name;
  int slots = 1;
  bool operator==(const RankHost&) const = default;
};

}  // namespace kiln
