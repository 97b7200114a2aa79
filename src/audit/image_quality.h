// Images that are dark, bright, nearly empty, blurred, or of an odd size or shape: measured one by
// one, judged beside the other images of the data set, since what is odd among photos may be
// ordinary among X-rays.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"

namespace kiln {

// Of an image that is shrunk to 256 pixels on its longer side; a smaller one is measured as it is.
// Brightness is luma (ITU-R BT.601), from 0 to 1.
struct ImageMeasures {
  ImageSize size;        // as stored; height 0: not measured
  double highlight = 0;  // the brightness that 5 % of the pixels exceed
  double shadow = 0;     // that 95 % exceed
  double detail = 0;     // the share of pixels that are not about as bright as most are
  double sharpness = 0;  // variance of the Laplacian by the variance of brightness

  bool is_known() const { return size.height > 0; }
};

// `image` may be a reduced one; `stored` is the size of the whole.
ImageMeasures measure_image(const Image& image, ImageSize stored);

enum class Flaw { kEmpty, kDark, kBright, kBlurred, kSmall, kOddShape };

// "nearly empty", "dark", …
std::string flaw_name(Flaw flaw);

struct FoundFlaw {
  Flaw flaw = Flaw::kEmpty;
  double extent = 0;   // how far beyond the limit, as a factor; at least 1
  std::string reason;  // a clause with the number and the limit
};

// What the images of a data set are like: the medians of those that are measured.
struct UsualImage {
  double highlight = 1, shadow = 0, detail = 1, sharpness = 1;
  double short_side = 0, aspect = 1;  // pixels; width by height
};
UsualImage usual_image(std::span<const ImageMeasures> images);

// Flaws that a person would see, and that set the image apart from the usual one. Of a nearly empty
// image nothing else is said but of its size and shape.
std::vector<FoundFlaw> flaws_of(const ImageMeasures& image, const UsualImage& usual);

}  // namespace kiln
