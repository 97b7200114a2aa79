// What the files of a data set say by themselves: their bytes, and how their pictures look.
#pragma once

#include <vector>

#include "audit/image_quality.h"
#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"

namespace kiln {

struct ImageLooks {
  ScannedImages scanned;                // of all images
  std::vector<ImageMeasures> measures;  // [N], not known of images that cannot be decoded
};

// Reads every image once, with this many threads.
ImageLooks look_at_images(Dataset& set, int num_threads);

}  // namespace kiln
