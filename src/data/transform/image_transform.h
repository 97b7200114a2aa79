// One operation of an image transformation, its arguments checked; and how each is made. The table
// of all is in operations.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "data/image/image.h"
#include "data/image/resample.h"
#include "data/transform/operation_arguments.h"

namespace kiln {

// An image on its way through a chain, with memory that the next one uses again.
struct WorkImage {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3]
  std::vector<float> samples;        // as a tensor, instead of pixels: RGB, [H, W, 3]
  std::vector<std::uint8_t> spare;   // the next pixels
  std::vector<std::uint8_t> copy;    // scratch memory
  Resampler resampler;

  std::size_t num_pixels() const {
    return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
  }
  // Where to write the pixels of an image of that size; replace() then makes them those of this
  // one. Throws ImageFault for a size that no image may have.
  std::uint8_t* begin(ImageSize next);
  void replace(ImageSize next);
};

class ImageTransform {
 public:
  virtual ~ImageTransform() = default;
  // Throws ImageFault for an image that it does not take.
  virtual void apply(WorkImage& image, RandomSequence& random) const = 0;
  // Of an image of size `whole`, or of any; nothing where it depends on more. Throws ImageFault.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const {
    return whole;
  }
  virtual bool is_random() const { return false; }
};

using MadeTransform = std::unique_ptr<ImageTransform>;

// Each asks for all its arguments, and what it returns is of no use where they have faults.

MadeTransform make_resize(Arguments& arguments);
MadeTransform make_random_resized_crop(Arguments& arguments);

MadeTransform make_center_crop(Arguments& arguments);
MadeTransform make_random_crop(Arguments& arguments);
MadeTransform make_pad(Arguments& arguments);
MadeTransform make_random_horizontal_flip(Arguments& arguments);
MadeTransform make_random_vertical_flip(Arguments& arguments);

MadeTransform make_color_jitter(Arguments& arguments);
MadeTransform make_grayscale(Arguments& arguments);
MadeTransform make_random_grayscale(Arguments& arguments);

MadeTransform make_random_rotation(Arguments& arguments);
MadeTransform make_random_affine(Arguments& arguments);
MadeTransform make_random_perspective(Arguments& arguments);

MadeTransform make_to_tensor(Arguments& arguments);
MadeTransform make_normalize(Arguments& arguments);
MadeTransform make_random_erasing(Arguments& arguments);
MadeTransform make_to_pil_image(Arguments& arguments);

inline double draw_between(Range range, RandomSequence& random) {
  return range.low + (range.high - range.low) * random.uniform();
}

}  // namespace kiln
