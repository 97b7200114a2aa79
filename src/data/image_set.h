// A folder of labelled images as the program sees it: which files, which classes, in list order.
//
// Read from an ImageDirectory (`images.lst` and `_schema.json`), a COCO folder, class folders, or
// archives.
// Reading never decodes pixels. Faults are Error kInvalidDataset (18) or kNotLabeledDataset (24),
// naming file and line.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/image_items.h"
#include "data/open_file.h"
#include "data/source_stamps.h"

namespace kiln {

// A file that holds many images.
struct ImageArchive {
  std::string name;  // relative to the root; empty: the root itself
  OpenFile file;     // as long as the set lives, so that no image is lost when the name goes away
};

struct ImageSet {
  enum class Kind { kImageDirectory, kCoco, kClassFolders, kUnlabeledFolder, kArchives };

  Kind kind = Kind::kImageDirectory;
  std::filesystem::path root;
  std::string name;                    // how errors call it: "Training dataset"
  std::vector<std::string> classes;    // by class id; ids no category uses are called "Others"
  ImageItems items;                    // in list order
  std::vector<ImageArchive> archives;  // that items are members of
  std::string list_name;     // of an ImageDirectory: its list, relative to the root; else empty
  std::string schema_json;   // `_schema.json`: the stored bytes, or what Convert would write
  std::string samples_json;  // `_samples.json`, likewise
  std::vector<SourceStamp> stamps;  // of what was read to list the images
  std::vector<std::string> notes;   // things worth a warning: files left out, loops of links, …

  bool labeled() const { return !classes.empty(); }
};

// "ImageDirectory", "COCO folder", "class folders", "folder of images", "archive".
std::string describe(ImageSet::Kind kind);

// What is in `root`. `name` is how errors call it ("Training dataset", or a path).
ImageSet read_image_set(const std::filesystem::path& root, const std::string& name);

// Opens the archives that are not open yet. Error kInvalidDataset.
void open_archives(ImageSet& set);

// For training: labels present (24), items without label left out, at least one image (18).
ImageSet read_labeled_image_set(const std::filesystem::path& root, const std::string& name);

// Images of each class, of a set where all have a label below `num_classes`.
std::vector<long long> counts_by_class(const ImageSet& set, std::size_t num_classes);

// Rewrites the labels of `valid` as ids of `train`, by class name. A class that `train` lacks is
// error 18 naming it.
void map_classes(const ImageSet& train, ImageSet& valid);

}  // namespace kiln
