// What `kiln audit` finds about images without asking whether their labels are right: copies and
// flaws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"
#include "data/split/groups.h"
#include "predict/image_facts.h"

namespace kiln {

// ---- images that occur more than once ----

struct ImageCopy {
  std::uint32_t first = 0, other = 0;  // the earlier image and its copy
  bool is_exact = false;               // equal bytes; otherwise they look the same
  bool same_class = true;

  bool operator==(const ImageCopy&) const = default;
};

// Builds the list from pairs of byte-identical images and pairs that look alike; in each pair the
// lower number comes first. `labels`: [N]. Copies with different classes come first, since one of
// their labels must be wrong; then exact copies; then in the order of the images.
std::vector<ImageCopy> listed_copies(std::span<const std::pair<std::uint32_t, std::uint32_t>> exact,
                                     std::span<const std::pair<std::uint32_t, std::uint32_t>> near,
                                     std::span<const std::int32_t> labels);

// Exact copies and near-duplicates. With more than kMaxDecodedImages images only exact copies are
// found; this is logged.
DuplicatePairs copies_in(const ScannedImages& scanned, Log& log);

// The copies within and across the data sets, from the pairs that copies_in() found in all their
// images, numbered on from one set to the next. Classes with the same name are the same class.
std::vector<ImageCopy> copies_of(const std::vector<const Dataset*>& sets,
                                 const DuplicatePairs& pairs);

// ---- images that are dark, bright, nearly empty, blurred, of an odd size or shape, outliers ----

// Each image is measured on its own but judged against the rest of the data set, since what is odd
// among photos may be normal among X-rays.

// Measures of an image shrunk to 256 pixels on its longer side; a smaller image is measured as it
// is. Brightness is luma (ITU-R BT.601), from 0 to 1.
struct ImageMeasures {
  ImageSize size;        // as stored; height 0: not measured
  double highlight = 0;  // the brightness exceeded by 5 % of the pixels
  double shadow = 0;     // the brightness exceeded by 95 %
  double detail = 0;     // the share of pixels not close to the most common brightness
  double sharpness = 0;  // variance of the Laplacian / variance of the brightness

  bool is_known() const { return size.height > 0; }
};

// `image` may have a reduced resolution; `stored` is the full size. Throws as
// require_pictures_module().
ImageMeasures measure_image(const Image& image, ImageSize stored);

enum class Flaw { kEmpty, kDark, kBright, kBlurred, kSmall, kOddShape, kOutlier };

// "nearly empty", "dark", …
std::string flaw_name(Flaw flaw);

struct FoundFlaw {
  Flaw flaw = Flaw::kEmpty;
  double extent = 0;   // how far beyond the limit, as a factor of at least 1
  std::string reason;  // a clause with the number and the limit
};

// What is normal in a data set: the medians over the measured images.
struct UsualImage {
  double highlight = 1, shadow = 0, detail = 1, sharpness = 1;
  double short_side = 0, aspect = 1;  // in pixels; width / height
};
UsualImage usual_image(std::span<const ImageMeasures> images);

// Flaws that a person would notice and that set the image apart from the usual one. For a nearly
// empty image only size and shape are reported besides.
std::vector<FoundFlaw> flaws_of(const ImageMeasures& image, const UsualImage& usual);

struct ImageLooks {
  ScannedImages scanned;  // of all images
  // [N]; not known for images that cannot be decoded, or where pictures_module() is missing.
  std::vector<ImageMeasures> measures;
  std::vector<ImageFacts> facts;  // [N]; empty for images that cannot be decoded
};

// Reads every image once, on this many threads.
ImageLooks look_at_images(Dataset& set, int num_threads, Log& log);

}  // namespace kiln
