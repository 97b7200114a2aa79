// A folder of labelled images as the program sees it: which files, which classes, in list order.
//
// Read from an ImageDirectory (`images.lst` and `_schema.json`), a COCO folder or class folders.
// Reading never decodes pixels. Faults are Error kInvalidDataset (18) or kNotLabeledDataset (24),
// naming file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/image.h"

namespace kiln {

struct ImageItem {
  std::string file_name;          // relative to the root, as listed
  int label = -1;                 // index into classes; -1: no label
  std::int64_t id = 0;            // as listed, or the running number
  std::optional<ImageSize> size;  // where the list gives it
};

struct ImageSet {
  enum class Kind { kImageDirectory, kCoco, kClassFolders, kUnlabeledFolder };

  Kind kind = Kind::kImageDirectory;
  std::filesystem::path root;
  std::string name;                  // how errors call it: "Training dataset"
  std::vector<std::string> classes;  // by class id; ids no category uses are called "Others"
  std::vector<ImageItem> items;      // in list order
  std::string list_name;     // of an ImageDirectory: its list, relative to the root; else empty
  std::string schema_json;   // `_schema.json`: the stored bytes, or what Convert would write
  std::string samples_json;  // `_samples.json`, likewise
  std::vector<std::string> notes;  // things worth a warning: files left out, loops of links, …

  bool labeled() const { return !classes.empty(); }
  std::filesystem::path path_of(const ImageItem& item) const { return root / item.file_name; }
};

// "ImageDirectory", "COCO folder", "class folders", "folder of images".
std::string describe(ImageSet::Kind kind);

// What is in `root`. `name` is how errors call it ("Training dataset", or a path).
ImageSet read_image_set(const std::filesystem::path& root, const std::string& name);

// For training: labels present (24), items without label left out, at least one image (18).
ImageSet read_labeled_image_set(const std::filesystem::path& root, const std::string& name);

// Rewrites the labels of `valid` as ids of `train`, by class name. A class that `train` lacks is
// error 18 naming it.
void map_classes(const ImageSet& train, ImageSet& valid);

}  // namespace kiln
