// What is drawn at random for an image: its crop before it is resized, and changes of its pixels
// afterwards. Every function takes what it needs from the sequence it is given, so that a key
// (seed, epoch, image) fixes it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "data/image/image.h"

namespace kiln {

// A part of 8 % to 100 % of the area and a width of 3/4 to 4/3 of the height (log-uniform), uniform
// in place; after ten draws that do not fit, the largest center whose ratio is within the range. As
// torchvision's RandomResizedCrop chooses it.
Region draw_crop(ImageSize whole, RandomSequence& random);

// A quarter of the time, fills a rectangle of 2 % to 33 % of the area and a height of 0.3 to 3.3
// times the width with `color` (Zhong et al., "Random Erasing Data Augmentation", AAAI 2020).
void random_erase(std::uint8_t* pixels, ImageSize size, const std::uint8_t* color,
                  RandomSequence& random);

// TrivialAugmentWide: one operation, drawn uniformly, of a strength drawn uniformly (Müller and
// Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", ICCV 2021). The
// operations and ranges are torchvision's; what moves pixels takes the nearest one, and black where
// there is none.
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

// `magnitude`: the tangent of a shear, pixels of a translation, degrees of a rotation (against the
// clock), what is added to the factor 1 of brightness, color, contrast and sharpness, the bits
// that are kept, the lowest value that is inverted; of no meaning to the others.
struct DrawnOperation {
  ImageOperation operation = ImageOperation::kIdentity;
  double magnitude = 0;
};

DrawnOperation draw_operation(RandomSequence& random);

// Changes `pixels`, RGB [H, W, 3]. `copy` is scratch memory.
void apply_operation(const DrawnOperation& drawn, std::uint8_t* pixels, ImageSize size,
                     std::vector<std::uint8_t>& copy);

}  // namespace kiln
