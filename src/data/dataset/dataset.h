// A dataset of labeled images: its files and classes, in list order. Read from an ImageDirectory, a
// COCO folder, class folders, archives, or record files; no pixel is decoded. Faults are Error
// kInvalidDataset (18) or kNotLabeledDataset (24), naming file and line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/record_options.h"
#include "data/archive/archive.h"
#include "data/dataset/folder_entries.h"
#include "data/image/image.h"

namespace kiln {

// The images of a set in little memory: the name and at most 64 bytes more for each, archive
// members included, and 8 more where loaders read them.

// One image as it is added or looked at; `file_name` of the latter is valid until samples are
// added.
struct Sample {
  std::string_view file_name;     // relative to the root, as listed; in an archive: the member
  int label = -1;                 // index into classes; -1: no label
  std::int64_t id = 0;            // as listed, or a running number
  std::optional<ImageSize> size;  // if the list gives it
};

// The images of a dataset, compactly: the name and at most 64 bytes more for each, archive members
// included.
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
  // nullptr: a separate file.
  const ArchiveMember* member(std::size_t i) const {
    return members_.empty() ? nullptr : &members_[i];
  }

  void push_back(const Sample& item);
  void push_back(const Sample& item, const ArchiveMember& member);  // all or none are members
  // For `count` more samples whose names have `name_bytes` bytes in total.
  void reserve(std::size_t count, std::size_t name_bytes);
  // Hashes of the images' bytes (content_hash()), known once a loader has read them; 0: not yet.
  // After keep_hashes() any number of threads may note and look.
  void keep_hashes() { hashes_.resize(size()); }
  void note_content(std::size_t i, std::string_view bytes);
  void set_hash(std::size_t i, std::uint64_t hash) { hashes_[i] = hash; }
  std::uint64_t hash(std::size_t i) const;

  void set_label(std::size_t i, int label) { labels_[i] = label; }
  void set_size(std::size_t i, ImageSize size) { sizes_[i] = size; }
  // The samples `i` with keep[i], in order, with their ids and hashes.
  SampleTable only(const std::vector<bool>& keep) const;
  void remove_unlabeled();
  void shrink_to_fit();
  std::size_t memory_bytes() const;

  // Appended to `bytes` for a reader of the same build. take_from() removes what it reads, and
  // throws std::length_error for bytes that are not a valid table.
  void append_to(std::string& bytes) const;
  static SampleTable take_from(std::string_view& bytes);

 private:
  template <typename Visit>
  static void visit_columns(auto& samples, Visit&& visit);

  std::string names_;                // concatenated
  std::vector<std::uint64_t> ends_;  // of each name
  std::vector<std::int32_t> labels_;
  std::vector<ImageSize> sizes_;   // height 0: unknown
  std::vector<std::int64_t> ids_;  // empty: every id is a running number
  std::vector<ArchiveMember> members_;
  std::vector<std::uint64_t> hashes_;  // not part of append_to()
};

class SampleTable::Iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Sample;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Sample;

  Iterator(const SampleTable& samples, std::size_t i) : samples_(&samples), i_(i) {}
  Sample operator*() const { return (*samples_)[i_]; }
  Iterator& operator++() {
    ++i_;
    return *this;
  }
  bool operator==(const Iterator& other) const { return i_ == other.i_; }

 private:
  const SampleTable* samples_;
  std::size_t i_;
};

inline SampleTable::Iterator SampleTable::begin() const {
  return {*this, 0};
}

inline SampleTable::Iterator SampleTable::end() const {
  return {*this, size()};
}

// A file that contains many images.
struct ImageArchive {
  std::string name;  // relative to the root; empty: the root itself
  OpenFile file;     // stays open, so that no image is lost if the file is deleted
};

struct Dataset {
  enum class Kind {
    kImageDirectory,
    kCoco,
    kClassFolders,
    kUnlabeledFolder,
    kArchives,
    kRecords,
    kStream,
    kKeptStream
  };

  Kind kind = Kind::kImageDirectory;
  std::filesystem::path root;
  std::string name;                    // in error messages: "Training dataset"
  std::vector<std::string> classes;    // by class id; ids without a category are called "Others"
  SampleTable samples;                 // in list order
  std::vector<ImageArchive> archives;  // that contain the samples
  std::string list_name;     // the list of an ImageDirectory, relative to the root; else empty
  std::string schema_json;   // `_schema.json`: as stored, or as `kiln convert` would write it
  std::string samples_json;  // `_samples.json`, likewise
  std::string read_with;     // reading_text() of the options it was read with
  std::optional<int> first_label;   // the number of the first class in record files; empty: unknown
  std::int64_t num_streamed = 0;    // images of an epoch of a stream, which has no samples
  std::uint64_t memory_bytes = 0;   // that the images of a kept stream take
  std::vector<SourceStamp> stamps;  // of what was read to list the images
  std::vector<std::string> notes;   // for warnings: skipped files, circular links, …

  bool labeled() const { return !classes.empty(); }
  bool is_stream() const { return kind == Kind::kStream; }
  // Its images came in a stream, and are in an archive that no file has the name of.
  bool is_kept_stream() const { return kind == Kind::kKeptStream; }
  // Of a stream: of an epoch, at most.
  std::int64_t num_images() const {
    return is_stream() ? num_streamed : static_cast<std::int64_t>(samples.size());
  }
};

// "ImageDirectory", "COCO folder", "class folders", "folder of images", "archive", "record files",
// "stream", "stream, kept".
std::string describe(Dataset::Kind kind);

// What distinguishes datasets read from the same files: the options, and the contents of
// the file that they name; empty for the default.
std::string reading_text(const RecordOptions& records);

// Reads the dataset in `root`. `name` is for errors ("Training dataset", or a path).
Dataset read_dataset(const std::filesystem::path& root, const std::string& name,
                     const RecordOptions& records = {});

// Opens the archives that are not yet open. Error kInvalidDataset.
void open_archives(Dataset& set);

// For another part of the same dataset: it has the same archives, open where they are open in
// `from`, and what was unpacked is not unpacked again. Throws std::system_error.
void share_archives(const Dataset& from, Dataset& to);

// Another dataset with some of the images, and with everything else as it is, but without notes.
// Throws std::system_error.
Dataset part_of(const Dataset& set, const std::vector<bool>& keep);

// For a folder without labels whose images lie deeper than in class folders, such as the parent of
// train and val: which folder to give. Else empty.
std::string depth_advice(const Dataset& set);

// For training: labels present (24), samples without label left out, at least one image (18).
Dataset read_labeled_dataset(const std::filesystem::path& root, const std::string& name,
                             const RecordOptions& records = {});

// Images per class; every label must be below `num_classes`.
std::vector<long long> counts_by_class(const Dataset& set, std::size_t num_classes);

// Changes the labels of `valid` to the ids of `train`, by class name. A class missing from `train`
// is error 18 naming it.
void map_classes(const Dataset& train, Dataset& valid);

}  // namespace kiln
