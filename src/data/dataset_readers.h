// The three kinds of labelled folder, each read by its own file; image_set.cpp chooses.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_fault.h"
#include "data/image_set.h"

namespace kiln {

// Names that `_meta.yaml` gives, or their defaults.
struct DirectoryNames {
  std::string list, schema, samples;
};

// Whether `root` says that it is an ImageDirectory: it has `_meta.yaml` or `images.lst`.
bool is_image_directory(const std::filesystem::path& root);
DirectoryNames read_directory_names(const DatasetContext& context);
ImageSet read_image_directory(const DatasetContext& context);

// Files that the list of an ImageDirectory names, without a look at them.
std::vector<std::string> listed_files(const DatasetContext& context);

// The first *.json of the root that holds images and annotations, by name; nothing when there is
// none. JSON files that could not be read are named in `notes`.
std::optional<ImageSet> read_coco(const DatasetContext& context, std::vector<std::string>& notes);

// Class folders one level deep, or else every image at any depth, without labels.
ImageSet read_folders(const DatasetContext& context);

// Every item is a regular file; Error kInvalidDataset names the first ten that are not. `lines`
// (may be empty) are the places of the items in `list`. Adds the folders' stamps to the set.
void check_listed_files(ImageSet& set, const std::vector<int>& lines, const std::string& list,
                        const DatasetContext& context);

}  // namespace kiln
