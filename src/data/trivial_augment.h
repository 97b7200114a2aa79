// TrivialAugmentWide: one operation, drawn uniformly, of a strength drawn uniformly (Müller and
// Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation", ICCV 2021). The
// operations and ranges are torchvision's; what moves pixels takes the nearest one, and black where
// there is none.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "data/image.h"

namespace kiln {

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
// clock), what is added to the factor 1 of brightness, colour, contrast and sharpness, the bits
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
