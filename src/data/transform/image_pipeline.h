// What becomes of an image on its way into a batch: file bytes -> pixels of one place in it, and
// these -> the numbers that a network takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/vocabulary.h"
#include "data/image/image.h"

namespace kiln {

struct TransformSpec {
  ImageSize output;  // of every image in a batch
  // What the short side is resized to before the center of `output` size is cut; at least that
  // size. 0: every image must have `output` size already, another size is a bad image. Of no use to
  // kStandard and kStrong, which take any size.
  int short_side = 0;
  bool keep_exact = true;  // an image that has `output` size already is not resized
  Augment augment = Augment::kNone;
  std::array<std::uint8_t, 3> erased = {128, 128, 128};  // RGB of what kStrong erases
  bool operator==(const TransformSpec&) const = default;
};

// Of one image in a batch, RGB in 8 bits.
inline std::size_t image_bytes(const TransformSpec& plan) {
  return static_cast<std::size_t>(plan.output.height) *
         static_cast<std::size_t>(plan.output.width) * 3;
}

// Names what is drawn for an image, so that it depends on nothing else.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t image = 0;  // its number in the data set
};

// round(size * 256 / 224): the short side that goes with a center of `size`.
int usual_short_side(int size);

// Bytes of a batch -> the numbers that a network takes.

// out = (rgb / 255 - mean) / std, in the order of the bytes: [num_pixels, 3]. Rounded to float
// after every operation, so the bits are those of torchvision's ToTensor and Normalize. Any thread.
void normalize_pixels(const std::uint8_t* rgb, std::size_t num_pixels, const Normalization& scaling,
                      float* out);

// File bytes -> the pixels of one place in a batch: decoded, resized, cut and augmented as a
// TransformSpec says.

// Seconds of the stages of one image.
struct PipelineTimes {
  double decode = 0;
  double resample = 0;  // or copying, and mirroring
  double augment = 0;   // what kStrong does to the pixels
};

// Keeps its memory from one image to the next. One thread; what it writes depends on the plan, the
// bytes and the key alone.
class ImagePipeline {
 public:
  ImagePipeline();
  ~ImagePipeline();
  ImagePipeline(ImagePipeline&&) noexcept;

  // Writes RGB, [output.height, output.width, 3], and nothing beyond it. Returns what is damaged in
  // an image that could be used, else nothing. Throws ImageFault.
  std::string write(std::string_view bytes, const TransformSpec& plan, const DrawKey& key,
                    std::uint8_t* target);

  // Of the last image that write() returned from.
  const PipelineTimes& times() const;

  // Bytes kept for decoded pixels, and to keep at least.
  std::size_t capacity() const;
  void reserve(std::size_t bytes);

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

// Whether write() mirrors the image of this key.
bool draws_mirror(const TransformSpec& plan, const DrawKey& key);

// Left to right; RGB, [size.height, size.width, 3].
void mirror_in_place(std::uint8_t* pixels, ImageSize size);

}  // namespace kiln
