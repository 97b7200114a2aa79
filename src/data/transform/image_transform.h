// One operation of an image transformation, with validated arguments, and the functions that create
// each. The table of all operations is in operations.cpp.
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

// An image on its way through a chain, with memory that is reused for the next one.
struct WorkImage {
  ImageSize size;
  std::vector<std::uint8_t> pixels;  // RGB, [H, W, 3]
  std::vector<float> samples;        // in tensor form, instead of `pixels`: RGB, [H, W, 3]
  std::vector<std::uint8_t> spare;   // the pixels being written
  std::vector<std::uint8_t> copy;    // scratch memory
  Resampler resampler;

  std::size_t num_pixels() const {
    return static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
  }
  // begin() returns the memory for the pixels of an image of size `next`; replace() then makes them
  // the pixels of this one. Throws ImageFault for a size that no image may have.
  std::uint8_t* begin(ImageSize next);
  void replace(ImageSize next);
};

class ImageTransform {
 public:
  virtual ~ImageTransform() = default;
  // Throws ImageFault for an image that the operation does not accept.
  virtual void apply(WorkImage& image, RandomSequence& random) const = 0;
  // The size of the result for an image of size `whole`, or for any image; empty if it depends on
  // more than that. Throws ImageFault.
  virtual std::optional<ImageSize> size_after(std::optional<ImageSize> whole) const {
    return whole;
  }
  virtual bool is_random() const { return false; }
};

using MadeTransform = std::unique_ptr<ImageTransform>;

// Each of these requests all its arguments. The result must not be used if they have faults.

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
