// What becomes of an image on its way into a batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/vocabulary.h"
#include "data/image.h"

namespace kiln {

struct PixelPlan {
  ImageSize output;  // of every image in a batch
  // What the short side is resized to before the centre of `output` size is cut; at least that
  // size. 0: every image must have `output` size already, another size is a bad image. Of no use to
  // kStandard and kStrong, which take any size.
  int short_side = 0;
  bool keep_exact = true;  // an image that has `output` size already is not resized
  Augment augment = Augment::kNone;
  std::array<std::uint8_t, 3> erased = {128, 128, 128};  // RGB of what kStrong erases
  bool operator==(const PixelPlan&) const = default;
};

// Of one image in a batch, RGB in 8 bits.
inline std::size_t image_bytes(const PixelPlan& plan) {
  return static_cast<std::size_t>(plan.output.height) *
         static_cast<std::size_t>(plan.output.width) * 3;
}

// Names what is drawn for an image, so that it depends on nothing else.
struct DrawKey {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t image = 0;  // its number in the data set
};

// round(size * 256 / 224): the short side that goes with a centre of `size`.
int usual_short_side(int size);

}  // namespace kiln
