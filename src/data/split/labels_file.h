// --labels: a CSV file that corrects the labels of a dataset.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

struct LabelChanges {
  std::size_t num_changed = 0;            // images whose label changed
  std::vector<std::string> left_out;      // paths of images that were removed; sorted
  std::vector<std::string> new_classes;   // in the order of the file; after the others in the set
  std::vector<std::string> gone_classes;  // left without images, and removed from the set
};

// Applies the columns path and label: images named in the file get its label, which may be a new
// class; those with an empty label are removed. Throws Problems with all faults, as Error
// kUserError, and then leaves the set unchanged: those that parse_image_rows() finds; paths that
// are not in the set; labels that are not printable UTF-8 or longer than 200 bytes; no image left.
LabelChanges apply_labels(std::string_view text, const std::string& name, Dataset& set);

}  // namespace kiln
