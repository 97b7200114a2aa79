// split.csv: which images of a dataset train and which validate, as a file that people read and
// edit. Columns path, label, set ("train" or "valid") and group; a line for each image.
// Where a network is trained for each of --folds, a column fold says which one judges the image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/split.h"

namespace kiln {

inline constexpr const char* kSplitFileName = "split.csv";

// `sides`, `groups` and `folds`, from 0, have an entry for each image; without `groups` that column
// is empty, without `folds` there is none.
std::string format_split(const Dataset& set, const std::vector<Side>& sides,
                         const std::vector<std::uint32_t>& groups,
                         const std::vector<int>& folds = {});

struct SplitFile {
  std::vector<Side> sides;           // by image
  std::size_t num_other_labels = 0;  // images that have another label in the file
};

// By the columns path and set. `left_out` (sorted) are paths that the file may name although the
// set does not have them any more. Throws Problems with everything that is wrong, as Error
// kUserError: what parse_image_rows() finds; paths that the set does not have, images that the
// file does not name, other words than train and valid; no image of a set; a class that would
// only be validated.
SplitFile parse_split(std::string_view text, const std::string& name, const Dataset& set,
                      const std::vector<std::string>& left_out);

}  // namespace kiln
