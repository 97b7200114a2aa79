// --labels: a CSV file that corrects the labels of a dataset.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

struct LabelChanges {
  std::size_t num_changed = 0;            // images with another label than before
  std::vector<std::string> left_out;      // paths of images that were removed; sorted
  std::vector<std::string> new_classes;   // in the order of the file; after the others in the set
  std::vector<std::string> gone_classes;  // whose last image went elsewhere; no longer in the set
};

// By the columns path and label: the images that the file names get its label, which may be a new
// class; those with an empty label are removed. Throws Problems with everything that is wrong, as
// Error kUserError, and leaves the set as it is: what parse_image_rows() finds; paths that the set
// does not have; labels that are not printable UTF-8 or longer than 200 bytes; no image left.
LabelChanges apply_labels(std::string_view text, const std::string& name, Dataset& set);

}  // namespace kiln
