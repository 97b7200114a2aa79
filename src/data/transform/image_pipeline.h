// Turns file contents into the augmented pixels of one image in a batch, and pixels into the
// network's input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "data/image/image.h"
#include "data/transform/operations.h"
#include "record/vocabulary.h"

namespace kiln {

struct TransformSpec {
  Exif exif = Exif::kIgnore;
  ImageSize output;      // the size of every image in a batch
  Fit fit = Fit::kCrop;  // of whole images: not used with random crops, which take any part
  // With kCrop, images are resized to this short side, which is at least that of `output`, and then
  // center-cropped. 0: to the least size that covers `output`.
  int short_side = 0;
  bool keep_exact = true;  // images that already have `output` size are not resized
  Augment augment = Augment::kNone;
  std::array<std::uint8_t, 3> fill = {128, 128, 128};  // RGB of padding and of random erasing
  // Operations that replace all of the above except `output`: an image that has another size after
  // them is resized to cover it, and center-cropped. Compared by identity. nullptr: none.
  std::shared_ptr<const ImageChain> chain = {};
  bool operator==(const TransformSpec&) const = default;
};

// Whether the chain has random operations.
inline bool draws(const TransformSpec& plan) {
  return plan.chain && plan.chain->whole.is_random();
}

// Whether images can be cached: before the operations that are drawn anew, an image has the same
// pixels in every epoch, and its output size.
bool can_be_kept(const TransformSpec& plan);
// The plan that produces the image to cache, up to that point.
TransformSpec kept_form(TransformSpec plan);

// The size of one image in a batch as 8-bit RGB.
inline std::size_t image_bytes(const TransformSpec& plan) {
  return plan.output.num_pixels() * 3;
}

// round(size * 256 / 224): the short side that goes with a center crop of `size`.
int usual_short_side(int size);

// out = (rgb / 255 - mean) / std, in the same order: [num_pixels, 3]. Rounds to float after every
// operation, so the result is bit-identical to torchvision's ToTensor and Normalize. Thread-safe.
void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out);

// Seconds spent on the stages of one image.
struct PipelineTimes {
  double decode = 0;
  double resample = 0;  // or copying, and mirroring
  double augment = 0;   // operations on the resized pixels
};

// Turns file contents into the pixels of one image in a batch: decoded, resized, cropped and
// augmented as the TransformSpec says. Reuses its memory from image to image. Use from one thread.
// The output depends only on the plan, the bytes and the key.
class ImagePipeline {
 public:
  // Writes exactly [output.height, output.width, 3] RGB. Returns the damage of an image that could
  // still be used, if any. Throws ImageFault.
  std::string write(std::string_view bytes, const TransformSpec& plan, const DrawKey& key,
                    std::uint8_t* target);

  // Does the part of write() that follows the plan's kept_form(): turns the pixels written with
  // kept_form(), RGB [output.height, output.width, 3], into those of the plan. Throws ImageFault.
  void augment(const TransformSpec& plan, const DrawKey& key, std::uint8_t* pixels);

  // Of the last image for which write() returned: the times, and the part of the output that shows
  // it, which is all of it but for padding.
  const PipelineTimes& times() const { return times_; }
  const Region& picture() const { return picture_; }

  // The bytes reserved for decoded pixels, and a way to reserve at least `bytes`.
  std::size_t capacity() const { return part_.pixels.size(); }
  void reserve(std::size_t bytes) { part_.reserve(bytes); }

 private:
  std::string write_by_chain(std::string_view bytes, const TransformSpec& plan, const DrawKey& key,
                             std::uint8_t* target);

  ImagePart part_;
  WorkImage work_;  // its scratch memory
  PipelineTimes times_;
  Region picture_;
};

}  // namespace kiln
