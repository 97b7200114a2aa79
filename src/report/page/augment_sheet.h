// The page of `kiln inspect --augment`: some images as a model would see them.
#pragma once

#include <string>
#include <vector>

#include "record/vocabulary.h"

namespace kiln {

struct AugmentedImage {
  std::string file, label;            // `label` is empty for images without classes
  std::vector<std::string> variants;  // JPEG files, of epochs 1, 2, …
};

struct AugmentSheet {
  std::string data_path;
  Augment augment;
  int height = 0, width = 0;  // of the model's input; pictures may be smaller
  long long seed = 1;
  std::vector<AugmentedImage> images;
};

// Returns one self-contained file.
std::string augment_sheet_html(const AugmentSheet& sheet);

}  // namespace kiln
