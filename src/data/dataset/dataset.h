// A folder of labeled images as the program sees it: which files, which classes, in list order.
// Read from an ImageDirectory, a COCO folder, class folders, or archives; no pixel is decoded.
// Faults are Error kInvalidDataset (18) or kNotLabeledDataset (24), naming file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/archive/archive.h"
#include "data/dataset/folder_entries.h"
#include "data/image/image.h"

namespace kiln {

// The images of a set in little memory: the name and at most 64 bytes more for each, archive
// members included.

// One image as it is added or looked at; `file_name` of the latter is valid until samples are
// added.
struct Sample {
  std::string_view file_name;     // relative to the root, as listed; in an archive: the member
  int label = -1;                 // index into classes; -1: no label
  std::int64_t id = 0;            // as listed, or the running number
  std::optional<ImageSize> size;  // where the list gives it
};

class SampleTable {
 public:
  class Iterator;

  std::size_t size() const { return labels_.size(); }
  bool empty() const { return labels_.empty(); }
  Sample operator[](std::size_t i) const;
  Iterator begin() const;
  Iterator end() const;

  std::string_view file_name(std::size_t i) const;
  int label(std::size_t i) const { return labels_[i]; }
  // nullptr: a file of its own.
  const ArchiveMember* member(std::size_t i) const {
    return members_.empty() ? nullptr : &members_[i];
  }

  void push_back(const Sample& item);
  void push_back(const Sample& item, const ArchiveMember& member);  // then all are members
  // Room for so many more, whose names have so many bytes together.
  void reserve(std::size_t count, std::size_t name_bytes);
  void set_label(std::size_t i, int label) { labels_[i] = label; }
  void set_size(std::size_t i, ImageSize size) { sizes_[i] = size; }
  void remove_unlabeled();
  void shrink_to_fit();
  std::size_t memory_bytes() const;

  // Appended to `bytes` for a reader of the same build; the taker removes what it takes and throws
  // std::length_error for bytes that are no such list.
  void append_to(std::string& bytes) const;
  static SampleTable take_from(std::string_view& bytes);

 private:
  template <typename Visit>
  static void visit_columns(auto& samples, Visit&& visit);

  std::string names_;                // end to end
  std::vector<std::uint64_t> ends_;  // of each name
  std::vector<std::int32_t> labels_;
  std::vector<ImageSize> sizes_;   // height 0: not known
  std::vector<std::int64_t> ids_;  // empty: every id is the running number
  std::vector<ArchiveMember> members_;
};

class SampleTable::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Sample;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Sample;

  Iterator(const SampleTable& samples, std::size_t i) : items_(&samples), i_(i) {}
  Sample operator*() const { return (*items_)[i_]; }
  Iterator& operator++() {
    ++i_;
    return *this;
  }
  bool operator==(const Iterator& other) const { return i_ == other.i_; }

 private:
  const SampleTable* items_;
  std::size_t i_;
};

inline SampleTable::Iterator SampleTable::begin() const {
  return {*this, 0};
}

inline SampleTable::Iterator SampleTable::end() const {
  return {*this, size()};
}

// A folder of labeled images as the program sees it: which files, which classes, in list order.
//
// Read from an ImageDirectory (`images.lst` and `_schema.json`), a COCO folder, class folders, or
// archives.
// Reading never decodes pixels. Faults are Error kInvalidDataset (18) or kNotLabeledDataset (24),
// naming file and line.

// A file that holds many images.
struct ImageArchive {
  std::string name;  // relative to the root; empty: the root itself
  OpenFile file;     // as long as the set lives, so that no image is lost when the name goes away
};

struct Dataset {
  enum class Kind { kImageDirectory, kCoco, kClassFolders, kUnlabeledFolder, kArchives };

  Kind kind = Kind::kImageDirectory;
  std::filesystem::path root;
  std::string name;                    // how errors call it: "Training dataset"
  std::vector<std::string> classes;    // by class id; ids no category uses are called "Others"
  SampleTable samples;                 // in list order
  std::vector<ImageArchive> archives;  // that samples are members of
  std::string list_name;     // of an ImageDirectory: its list, relative to the root; else empty
  std::string schema_json;   // `_schema.json`: the stored bytes, or what Convert would write
  std::string samples_json;  // `_samples.json`, likewise
  std::vector<SourceStamp> stamps;  // of what was read to list the images
  std::vector<std::string> notes;   // things worth a warning: files left out, loops of links, …

  bool labeled() const { return !classes.empty(); }
};

// "ImageDirectory", "COCO folder", "class folders", "folder of images", "archive".
std::string describe(Dataset::Kind kind);

// What is in `root`. `name` is how errors call it ("Training dataset", or a path).
Dataset read_dataset(const std::filesystem::path& root, const std::string& name);

// Opens the archives that are not open yet. Error kInvalidDataset.
void open_archives(Dataset& set);

// For a folder without labels whose images lie deeper than in class folders, such as the parent of
// train and val: which folder to give. Else empty.
std::string depth_advice(const Dataset& set);

// For training: labels present (24), samples without label left out, at least one image (18).
Dataset read_labeled_dataset(const std::filesystem::path& root, const std::string& name);

// Images of each class, of a set where all have a label below `num_classes`.
std::vector<long long> counts_by_class(const Dataset& set, std::size_t num_classes);

// Rewrites the labels of `valid` as ids of `train`, by class name. A class that `train` lacks is
// error 18 naming it.
void map_classes(const Dataset& train, Dataset& valid);

}  // namespace kiln
