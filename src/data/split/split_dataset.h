// Splits one dataset into training and validation images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/image_scan.h"
#include "data/split/split.h"

namespace kiln {

struct SplitRequest {
  double fraction = 0.2;      // of each class, for validation; 0: all images are for training
  std::string group_by = {};  // base/path_pattern.h; empty: none
  std::uint64_t seed = 1;
  std::string split_file = {};   // a path; empty: choose_sides()
  std::string labels_file = {};  // a path; empty: none
};

struct SplitDataset {
  Dataset set;              // all images, with corrected labels
  std::vector<Side> sides;  // by image
  // Found by scanning the images; empty with a split file.
  DuplicatePairs duplicates;
  std::vector<std::uint32_t> groups;
  // "228 training, 56 validation images (20 % of each class; 3 groups of duplicates kept
  // together)".
  std::string summary;
};

// Corrects the labels of a labeled dataset, finds out which images belong together, and splits it;
// every training class and every validation class then has a training image. Notes are added to
// those of the set. Throws Problems: those of apply_labels() and parse_split(); Error kUserError
// for files that cannot be read and for a `group_by` that matches no path; Error kInvalidDataset if
// all images have one class, and if no class has an image to spare for validation.
SplitDataset split_dataset(Dataset set, const SplitRequest& request, const ScanPlan& scan);

}  // namespace kiln
