// Words and small values that several folders of src/ share, and their text on the command line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kiln {

// The value with this name; `names` are those of all values, in order. Empty for unknown words.
template <typename Value>
std::optional<Value> value_named(const auto& names, std::string_view word) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == word) return static_cast<Value>(i);
  return std::nullopt;
}

struct ImageSize {
  int height = 0;
  int width = 0;
  bool operator==(const ImageSize&) const = default;

  std::size_t num_pixels() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  // Where a pixel begins in [H, W, 3].
  std::size_t place_of(int row, int column) const {
    return (static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
            static_cast<std::size_t>(column)) *
           3;
  }
};

// Usual names of the folder of validation images beside "train".
inline constexpr const char* kValidationFolders[] = {"val", "valid", "validation"};

// What images are packed into.
enum class ShardFormat { kTar, kTfRecord, kRecordIo };

// Whether the EXIF orientation of image files, how cameras were held, turns pictures upright.
enum class Exif { kIgnore, kApply };

inline constexpr std::array<std::string_view, 2> kExifNames = {"ignore", "apply"};

inline std::string exif_name(Exif exif) {
  return std::string(kExifNames[static_cast<std::size_t>(exif)]);
}

// How a whole image of any shape fills the network's input. kCrop: it covers the input, and what
// stands out is cut away. kPad: all of it is inside, its aspect ratio kept, on a plain background.
// kStretch: both of its sides become the input's.
enum class Fit { kCrop, kPad, kStretch };

inline constexpr std::array<std::string_view, 3> kFitNames = {"crop", "pad", "stretch"};

inline std::string fit_name(Fit fit) {
  return std::string(kFitNames[static_cast<std::size_t>(fit)]);
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

// What is cached between epochs. kBytes: files as stored. kDecoded: decoded pixels.
enum class CachePolicy { kNone, kBytes, kDecoded, kAuto };

// Which part of the network is not trained. kBackbone: everything except the linear layers at its
// end. kNorm: BatchNorm and LayerNorm. A number above 0: what comes before stage 1, and so many
// stages.
enum class Freeze : int { kNorm = -2, kBackbone = -1, kNone = 0 };
inline bool freezes_all_norms(Freeze what) {
  return what < Freeze::kNone;
}

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

// The names of the features to read from a tf.train.Example.
struct RecordKeys {
  std::string image = "image/encoded";      // bytes: the image file's contents
  std::string label = "image/class/label";  // int64: the class's number
  std::string text = "image/class/text";    // bytes: the class's name
  std::string name = "image/filename";      // bytes: the image's file name
  bool operator==(const RecordKeys&) const = default;
};

// Parses "image=KEY,label=KEY,text=KEY" in any order; omitted parts keep their defaults. Throws
// std::invalid_argument with a clause.
RecordKeys parse_record_keys(const std::string& text);

// Parses "KEY=VALUE,KEY=VALUE"; of several "=" in a part, the last one. Throws
// std::invalid_argument with a clause for a key that is not in `known`. Where nothing is known,
// keys may be empty, and values may not.
std::vector<std::pair<std::string, std::string>> parse_pairs(
    const std::string& text, const std::vector<std::string>& known = {});

// How many classes an image has. kAuto: one, and labels that may be several are an error.
enum class TaskKind : std::uint8_t { kAuto, kSingleLabel, kMultiLabel };

// What the files of a dataset do not say themselves.
struct RecordOptions {
  RecordKeys keys = {};
  std::string classes_file = {};  // class names, one per line; empty: none
  // The number of the first class, 0 or 1; empty: detected.
  std::optional<int> first_label = {};
  // Empty: kIgnore for an ImageDirectory, whose images the designer does not turn, else kApply.
  std::optional<Exif> exif = {};
  // Of lists of images (data/dataset/label_list.h). What a column holds ("path", "label", …), and
  // its name, or its number from 1.
  std::vector<std::pair<std::string, std::string>> columns = {};
  // Beginnings of paths, and the folders that they stand for; "": where relative paths begin.
  std::vector<std::pair<std::string, std::string>> list_roots = {};
  // Rows of which sets are read: "train", "valid" or "test". Empty: all.
  std::vector<std::string> list_sets = {};
  bool requires_sets = true;  // false: a list without a column of sets is read anyway
  TaskKind task = TaskKind::kAuto;
  bool operator==(const RecordOptions&) const = default;
};

// In the order they are applied. data/transform/augment.h defines what each one does.
enum class AugmentStep : std::uint8_t { kCrop, kFlip, kVflip, kRotate90, kColor, kTrivial, kErase };

inline constexpr std::array<std::string_view, 7> kAugmentStepNames = {
    "crop", "flip", "vflip", "rotate90", "color", "trivial", "erase"};

class Augment {
 public:
  static const Augment kNone, kFlip, kStandard, kStrong;  // the named sets

  constexpr Augment() = default;
  constexpr bool has(AugmentStep step) const { return (bits_ & bit_of(step)) != 0; }
  constexpr Augment with(AugmentStep step) const {
    Augment more = *this;
    more.bits_ = static_cast<std::uint8_t>(more.bits_ | bit_of(step));
    return more;
  }
  constexpr bool operator==(const Augment&) const = default;

 private:
  static constexpr unsigned bit_of(AugmentStep step) { return 1U << static_cast<unsigned>(step); }

  std::uint8_t bits_ = 0;
};

inline constexpr Augment Augment::kNone = {};
inline constexpr Augment Augment::kFlip = Augment().with(AugmentStep::kFlip);
inline constexpr Augment Augment::kStandard = Augment::kFlip.with(AugmentStep::kCrop);
inline constexpr Augment Augment::kStrong =
    Augment::kStandard.with(AugmentStep::kTrivial).with(AugmentStep::kErase);

// "none", "flip", "standard" or "strong" for a named set; otherwise the names of its operations in
// the order of AugmentStep, separated by commas.
std::string augment_name(Augment augment);

// A description of each operation, in order, joined by commas: "random resized crop, horizontal
// flip"; empty for kNone.
std::string augment_text(Augment augment);

// Parses the name of a set, or a comma-separated list of operations in any order, without spaces.
// Case-insensitive. Throws std::invalid_argument, with what follows an option's name ("contains
// 'flop', but must be …"), for an unknown word, an empty item, a repeated item, or the
// name of a set inside a list.
Augment parse_augment(std::string_view text);

// Whether each epoch crops an image differently, rather than starting from the same pixels.
inline bool takes_random_parts(Augment augment) {
  return augment.has(AugmentStep::kCrop);
}

}  // namespace kiln
