// The set of data augmentation operations, and its text form on the command line.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// In the order they are applied. data/transform/augment.h defines what each one does.
enum class AugmentStep : std::uint8_t { kCrop, kFlip, kVflip, kRotate90, kColor, kTrivial, kErase };

inline constexpr std::array<std::string_view, 7> kAugmentStepNames = {
    "crop", "flip", "vflip", "rotate90", "color", "trivial", "erase"};

class Augment {
 public:
  // The named sets: nothing; flip; crop and flip; crop, flip, trivial and erase.
  static const Augment kNone, kFlip, kStandard, kStrong;

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

// A description of each operation, in order: "random resized crop", "horizontal flip".
std::vector<std::string_view> augment_texts(Augment augment);
// The same, joined by commas; empty for kNone.
std::string augment_text(Augment augment);

// Why a text is not a valid set, worded to follow the option's name: "contains 'flop', but must be
// …".
class AugmentFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Parses the name of a set, or a comma-separated list of operations in any order, without spaces.
// Case-insensitive. Throws AugmentFault for an unknown word, an empty item, a repeated item, or the
// name of a set inside a list.
Augment parse_augment(std::string_view text);

// Whether each epoch crops an image differently. If not, the operations always start from the same
// pixels.
inline bool takes_random_parts(Augment augment) {
  return augment.has(AugmentStep::kCrop);
}

}  // namespace kiln
