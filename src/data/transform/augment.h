// Random augmentation of an image: a crop before resizing, and changes to its pixels afterwards.
// Every function draws from the given sequence, so the key (seed, epoch, image, repeat) determines
// the result. Pixels are RGB, [H, W, 3].
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "data/image/image.h"

namespace kiln {

// A closed interval.
struct NumberRange {
  double low = 0, high = 0;
};

inline double draw_between(NumberRange range, RandomSequence& random) {
  return range.low + (range.high - range.low) * random.uniform();
}

// The allowed share of an image's area and the allowed aspect ratio of a rectangle.
struct RectangleRange {
  NumberRange area = {0.08, 1}, ratio = {3.0 / 4.0, 4.0 / 3.0};
};

// Of random erasing: 2 % to 33 % of the area, 0.3 to 3.3 times as high as wide.
inline constexpr RectangleRange kErased{{0.02, 0.33}, {0.3, 3.3}};

// A crop of 8 % to 100 % of the area with an aspect ratio (width / height) of 3/4 to 4/3
// (log-uniform), placed uniformly. After ten draws that do not fit, the largest center crop within
// that range of ratios. As torchvision's RandomResizedCrop.
Region draw_crop(ImageSize whole, RandomSequence& random, const RectangleRange& range = {});

// A rectangle smaller than the image, drawn as in draw_crop() but with height / width as its ratio;
// empty after ten draws that do not fit. As torchvision's RandomErasing.
std::optional<Region> draw_erased(ImageSize whole, RandomSequence& random,
                                  const RectangleRange& range);

// With probability 1/4, fills a rectangle within kErased with `color` (Zhong et al., "Random
// Erasing Data Augmentation", AAAI 2020).
void random_erase(std::uint8_t* pixels, ImageSize size, const std::uint8_t* color,
                  RandomSequence& random);

void flip_horizontally(std::uint8_t* pixels, ImageSize size);
void flip_vertically(std::uint8_t* pixels, ImageSize size);

// 0 to 3 with equal probability; 0 or 2 if the image is not square, since its shape must not
// change.
int draw_quarter_turns(ImageSize size, RandomSequence& random);
// Rotates counterclockwise. `copy` is scratch memory.
void turn(std::uint8_t* pixels, ImageSize size, int quarter_turns, std::vector<std::uint8_t>& copy);

// TrivialAugmentWide: one operation, drawn uniformly, with a magnitude drawn uniformly (Müller and
// Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", ICCV 2021).
// Operations and ranges are torchvision's; geometric operations use the nearest pixel, and black
// outside of the image.
enum class ImageOperation {
  kIdentity,
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kBrightness,
  kColor,
  kContrast,
  kSharpness,
  kPosterize,
  kSolarize,
  kAutoContrast,
  kEqualize,
};
inline constexpr int kNumImageOperations = 14;

// `magnitude` is the tangent of a shear, the pixels of a translation, the degrees of a rotation
// (counterclockwise), the change of brightness, color, contrast or sharpness relative to 1, the
// bits that posterize keeps, or the threshold of solarize; the others do not use it.
struct DrawnOperation {
  ImageOperation operation = ImageOperation::kIdentity;
  double magnitude = 0;
};

DrawnOperation draw_operation(RandomSequence& random);

// Brightness, contrast and color (saturation) in a random order, each with a factor drawn uniformly
// from 0.6 to 1.4: torchvision's ColorJitter(0.4, 0.4, 0.4).
std::array<DrawnOperation, 3> draw_color_jitter(RandomSequence& random);

// `copy` is scratch memory.
void apply_operation(const DrawnOperation& drawn, std::uint8_t* pixels, ImageSize size,
                     std::vector<std::uint8_t>& copy);

}  // namespace kiln
