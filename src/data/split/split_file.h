// split.csv: which images of a dataset are for training and which for validation, in a file that
// people read and edit. Columns path, label, set ("train" or "valid") and group, with one line per
// image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/split.h"

namespace kiln {

inline constexpr const char* kSplitFileName = "split.csv";

// `sides` and `groups` (numbered from 0) have one entry per image. Without `groups` that column is
// empty.
std::string format_split(const Dataset& set, const std::vector<Side>& sides,
                         const std::vector<std::uint32_t>& groups);

struct SplitFile {
  std::vector<Side> sides;           // by image
  std::size_t num_other_labels = 0;  // images with a different label in the file
};

// Applies the columns path and set. `left_out` (sorted) are paths that the file may name although
// they are no longer in the set. Throws Problems with all faults, as Error kUserError: those that
// parse_image_rows() finds; paths that are not in the set; images that the file does not name;
// words other than train and valid; a side without images; a class with only validation images.
SplitFile parse_split(std::string_view text, const std::string& name, const Dataset& set,
                      const std::vector<std::string>& left_out);

}  // namespace kiln
