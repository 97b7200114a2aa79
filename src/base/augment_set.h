// The operations of data augmentation, as a set; and the option words for it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

// In the order in which they are applied. What each does is defined in data/transform/augment.h.
enum class AugmentStep : std::uint8_t { kCrop, kFlip, kVflip, kRotate90, kColor, kTrivial, kErase };

inline constexpr std::array<std::string_view, 7> kAugmentStepNames = {
    "crop", "flip", "vflip", "rotate90", "color", "trivial", "erase"};

class Augment {
 public:
  // The sets that have a name: no operation; flip; crop and flip; these with trivial and erase.
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

// "none", "flip", "standard" or "strong" if the set has such a name; else its operations in the
// order of AugmentStep, joined by commas.
std::string augment_name(Augment augment);

// What its operations do, in their order: "random resized crop", "horizontal flip".
std::vector<std::string_view> augment_texts(Augment augment);
// The same, joined by commas; empty for none.
std::string augment_text(Augment augment);

// Why a text is no set: "contains 'flop', but must be …", what follows the option's name.
class AugmentFault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A name as above, or a list of operations in any order, without spaces; in any case. Throws
// AugmentFault for an unknown word, an empty part, one that is there twice, and a name in a list.
Augment parse_augment(std::string_view text);

// Whether every epoch uses a different crop of an image; otherwise the pixels that the operations
// begin with are always the same.
inline bool takes_random_parts(Augment augment) {
  return augment.has(AugmentStep::kCrop);
}

}  // namespace kiln
