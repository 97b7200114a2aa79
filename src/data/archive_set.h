// Labelled images inside archives: one archive with class folders in it, or a folder of shards.
#pragma once

#include <string>
#include <vector>

#include "data/dataset_fault.h"
#include "data/image_set.h"

namespace kiln {

// The archives right inside `root` where there are some, and neither folders nor images beside
// them.
std::vector<std::string> find_shards(const std::filesystem::path& root);

// `archives` are relative to the root, in order; "" is the root itself. The class of an image is
// its
// `.cls` file where a tar has such files (WebDataset: KEY.jpg and KEY.cls; the class is a number, a
// line of `classes.txt` beside the shards, or a name), else the folder it lies in, one below what
// all images share. Without classes: every image, unlabelled. Error kInvalidDataset.
ImageSet read_archives(const DatasetContext& context, const std::vector<std::string>& archives);

}  // namespace kiln
