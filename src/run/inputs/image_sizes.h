// What the headers of a dataset's images say, and the size of the images of a run.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// Image sizes are read from the headers, in parallel.

// kCommon: stops as soon as two sizes differ.
enum class SizesWanted { kAll, kCommon };

// Fills in the sizes that the list does not give, gives wrong (with a note; a few images are looked
// at), or gives of images that are decoded with another `exif`, and returns how many. If a header
// cannot be read, the size stays unknown; the loader will report that image.
std::size_t scan_sizes(Dataset& set, SizesWanted wanted);

// How many of the first `most` images have an EXIF orientation other than upright; one after a
// PNG's pixels does not count.
struct TurnedImages {
  std::size_t turned = 0, looked_at = 0;
};
TurnedImages turned_images(const Dataset& set, std::size_t most);

// A sentence if a few images all over the set are nearly black, as those that cameras of 10 to 14
// bits write with 16, of which the high byte says little; or have one color each, as symbols whose
// transparency is dropped. Empty: they do not.
std::string note_of_lost_contrast(const Dataset& set);

// The median of `measure` over at most `most` images all over the set, whose headers are read
// unless their sizes are known. Empty: none can be read, or it is a stream.
std::optional<double> median_of_sizes(const Dataset& set, std::size_t most,
                                      const std::function<double(ImageSize)>& measure);
// The share of a typical image that a center crop to the shape of `output` cuts away, by the aspect
// ratios alone.
std::optional<double> share_cut_away(const Dataset& set, ImageSize output);

// The size that all images of all sets share; empty if they differ or none is known.
std::optional<ImageSize> common_size(const std::vector<const Dataset*>& sets);

// The size of the images of a run unless the user names one. An ImageDirectory of one size keeps
// it, as the designer's component does; other images do if no side is above 256 pixels. All others
// become `usual` x `usual`.
struct AutomaticSize {
  ImageSize size;
  bool is_stored = false;  // the size that all images have
  std::string reason;      // "all images have this size"
  bool operator==(const AutomaticSize&) const = default;
};
// Of datasets with sizes from scan_sizes(); the first one decides which rule applies.
AutomaticSize automatic_size(const std::vector<const Dataset*>& sets, int usual);

}  // namespace kiln
