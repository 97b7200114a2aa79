// What can be learned from the image files without a network: their bytes, and how the pictures
// look.
#pragma once

#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/image_scan.h"
#include "tools/audit/image_quality.h"

namespace kiln {

struct ImageLooks {
  ScannedImages scanned;                // of all images
  std::vector<ImageMeasures> measures;  // [N]; not known for images that cannot be decoded
};

// Reads every image once, on this many threads.
ImageLooks look_at_images(Dataset& set, int num_threads);

}  // namespace kiln
