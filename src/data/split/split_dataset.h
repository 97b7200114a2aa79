// Splits one dataset into training and validation images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/split/groups.h"
#include "data/split/split.h"

namespace kiln {

// Untrusted CSV files that people edit, of images by their path in a dataset: --labels corrects
// their labels, and split.csv says which are for training and which for validation.

// Reads the file, of at most 1 GiB. Throws Error kUserError. `name` is the file as the user gave
// it:
// "--labels 'x.csv'".
std::string read_image_rows(const std::string& path, const std::string& name);

struct LabelChanges {
  std::size_t num_changed = 0;            // images whose label changed
  std::vector<std::string> left_out;      // paths of images that were removed; sorted
  std::vector<bool> are_right;            // by image that is left: the file confirms its label
  std::int64_t num_decided = 0;           // images of any of the three
  std::vector<std::string> unknown;       // paths that are not in the set
  std::vector<std::string> new_classes;   // in the order of the file; after the others in the set
  std::vector<std::string> gone_classes;  // left without images, and removed from the set
};

// Applies the columns path and label: images named in the file get its label, which may be a new
// class; those with an empty label are removed. If there is a column `decision`, `right` and
// `relabel` need a label, `leave out` is as an empty one, and nothing decides no more than the
// label does: the present one is then not confirmed. Throws Problems with all faults, as Error
// kUserError, and then leaves the set unchanged: those of any such file (not a CSV file, a column
// missing or repeated, rows of different lengths, a path with two values); other decisions; labels
// that are not printable UTF-8 or longer than 200 bytes; no image left; and paths that are not in
// the set, unless `may_name_others`.
LabelChanges apply_labels(std::string_view text, const std::string& name, Dataset& set,
                          bool may_name_others = false);

// split.csv has the columns path, label, set ("train" or "valid") and group, with one line per
// image.
inline constexpr const char* kSplitFileName = "split.csv";

// `sides` and `groups` (numbered from 0) have one entry per image. Without `groups` that column is
// empty.
std::string format_split(const Dataset& set, const std::vector<Side>& sides,
                         const std::vector<std::uint32_t>& groups);

struct SplitFile {
  std::vector<Side> sides;            // by image
  std::size_t num_other_labels = 0;   // images with a different label in the file
  std::vector<std::uint32_t> groups;  // of its column group, by image; empty: it has none
};

// Applies the columns path and set. `left_out` (sorted) are paths that the file may name although
// they are no longer in the set. Throws Problems with all faults, as Error kUserError: those
// of any such file; paths that are not in the set; images that the file does not name;
// words other than train and valid; a side without images; a class with only validation images.
SplitFile parse_split(std::string_view text, const std::string& name, const Dataset& set,
                      const std::vector<std::string>& left_out);

struct SplitRequest {
  double fraction = 0.2;      // of each class, for validation; 0: all images are for training
  std::string group_by = {};  // base/path_pattern.h; empty: none
  std::uint64_t seed = 1;
  std::string split_file = {};   // a path; empty: choose_sides()
  std::string labels_file = {};  // a path; empty: none
};

struct SplitDataset {
  Dataset set;                // all images, with corrected labels
  std::vector<Side> sides;    // by image
  DuplicatePairs duplicates;  // found by scanning the images; empty where the sides are given
  std::vector<std::uint32_t> groups;  // likewise, but a split file may give them
  // "228 training, 56 validation images (20 % of each class; 3 groups of duplicates kept
  // together)".
  std::string summary;
};

// Corrects the labels of a labeled dataset, finds out which images belong together, and splits it,
// as its list says if that has validation images (dataset/listing.h); every training class and
// every validation class then has a training image. Notes are added to those of the set; one names
// groups of the list that given sides tear apart. Throws Problems: those of apply_labels() and
// parse_split(); Error kUserError for files that cannot be read and for a `group_by` that matches
// no path; Error kInvalidDataset if all images have one class, and if no class has an image to
// spare for validation.
SplitDataset split_dataset(Dataset set, const SplitRequest& request, const ScanPlan& scan);

}  // namespace kiln
