// File bytes -> the augmented pixels of one image in a batch, and pixels -> the network's input.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/augment_set.h"
#include "base/vocabulary.h"
#include "data/image/image.h"
#include "data/transform/draw_key.h"
#include "data/transform/image_chain.h"

namespace kiln {

struct TransformSpec {
  ImageSize output;  // size of every image in a batch
  // Images are resized to this short side, at least that of `output`, and then center-cropped. 0:
  // no resizing, an image of any other size is a bad image. Not used with random crops, which
  // accept any size.
  int short_side = 0;
  bool keep_exact = true;  // images that already have `output` size are not resized
  Augment augment = Augment::kNone;
  std::array<std::uint8_t, 3> erased = {128, 128, 128};  // RGB fill of random erasing
  // Operations instead of all of the above but `output`, which every image must have after them;
  // equal only to itself. nullptr: none.
  std::shared_ptr<const ImageChain> chain = {};
  bool operator==(const TransformSpec&) const = default;
};

// Whether a cache can keep an image: before what is drawn again it has the same pixels in every
// epoch, and its output size.
bool can_be_kept(const TransformSpec& plan);
// The plan by which such an image is made, up to there.
TransformSpec kept_form(TransformSpec plan);

// One image in a batch, 8-bit RGB.
inline std::size_t image_bytes(const TransformSpec& plan) {
  return static_cast<std::size_t>(plan.output.height) *
         static_cast<std::size_t>(plan.output.width) * 3;
}

// round(size * 256 / 224): the resize that goes with a center crop of `size`.
int usual_short_side(int size);

// Pixels of a batch -> the network's input.

// out = (rgb / 255 - mean) / std, in the same order: [num_pixels, 3]. Rounded to float after every
// operation, so the result equals torchvision's ToTensor and Normalize bit for bit. Any thread.
void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out);

// File bytes -> the pixels of one image in a batch: decoded, resized, cropped and augmented as the
// TransformSpec says.

// Seconds for the stages of one image.
struct PipelineTimes {
  double decode = 0;
  double resample = 0;  // or copying; and mirroring
  double augment = 0;   // operations on the resized pixels
};

// Reuses its memory from one image to the next. One thread; the output depends only on the plan,
// the bytes and the key.
class ImagePipeline {
 public:
  ImagePipeline();
  ~ImagePipeline();
  ImagePipeline(ImagePipeline&&) noexcept;

  // Writes RGB, [output.height, output.width, 3], and nothing beyond it. Returns the damage of an
  // image that could still be used, if any. Throws ImageFault.
  std::string write(std::string_view bytes, const TransformSpec& plan, const DrawKey& key,
                    std::uint8_t* target);

  // What write() does after the plan's kept_form(): turns the pixels that it writes by that, RGB
  // [output.height, output.width, 3], into those of the plan.
  // Throws ImageFault where operations change the size.
  void augment(const TransformSpec& plan, const DrawKey& key, std::uint8_t* pixels);

  // For the last image for which write() returned.
  const PipelineTimes& times() const;

  // Bytes reserved for decoded pixels, and the least to reserve.
  std::size_t capacity() const;
  void reserve(std::size_t bytes);

 private:
  std::string write_by_chain(std::string_view bytes, const TransformSpec& plan, const DrawKey& key,
                             std::uint8_t* target);

  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace kiln
