// One archive, open, and the images in it.
#pragma once

#include <string>
#include <vector>

#include "data/dataset_fault.h"
#include "data/image_set.h"

namespace kiln {

struct ArchiveListing {
  OpenFile file;
  ImageItems images;  // members in the archive's order; `label` is an index into `labels`, or -1
  std::vector<std::string> labels;  // what the `.cls` files of a tar say
  std::string note;
};

// `archive` is relative to the root, or empty. Error kInvalidDataset: damaged, cut off, a path that
// leads out of it, a name that is there twice.
ArchiveListing list_archive(const DatasetContext& context, const std::string& archive);

// The archive itself, or what it unpacks to. Error kInvalidDataset.
OpenFile open_archive(const DatasetContext& context, const std::string& archive);

}  // namespace kiln
