// What the files of a data set say by themselves: their bytes, and how their pictures look.
#pragma once

#include <cstdint>
#include <vector>

#include "audit/image_quality.h"
#include "data/dataset/dataset.h"
#include "data/split/near_duplicates.h"

namespace kiln {

struct ImageLooks {
  std::vector<std::uint64_t> hashes;    // [N], content_hash() of the bytes; 0: unreadable
  std::vector<ImageMeasures> measures;  // [N], not known of images that cannot be decoded
  std::vector<LookPrint> looks;         // [N], empty of the same
};

// Reads every image once, with so many threads.
ImageLooks look_at_images(const Dataset& set, int num_threads);

}  // namespace kiln
