// Images to predict, with or without labels. (Datasets for training are in dataset.h.)
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// As read_dataset(), but reads every image of plain folders and archives at any depth: those in a
// class folder have its label, the others none. `path` may also be a single image file.
Dataset read_every_image(const std::filesystem::path& path, const std::string& name,
                         const RecordOptions& records = {});

// Image files, without labels. Throws Error kInvalidDataset for a path that is not one.
Dataset read_image_files(const std::vector<std::string>& paths, const std::string& name);

// How the labels of a list are read for a model: texts with a mark between several labels are names
// only if the model has classes of such names.
TaskKind task_of_labels(TaskKind task, const std::vector<std::string>& classes);

// Labels that are not among the model's classes.
struct UnknownLabels {
  long long num_images = 0;
  std::vector<std::string> names;
};

// The true labels of a dataset, compared with the classes of a model. If labels come from folder
// names and none matches a class, the folders are taken as plain folders, and there are no labels.
class TrueLabels {
 public:
  // Both must outlive this object.
  TrueLabels(const Dataset& set, const std::vector<std::string>& classes);

  bool any() const { return any_; }
  // The label of image `i`; empty if it has none.
  std::string of(std::size_t i) const { return set_.label_text(any_ ? set_.samples.label(i) : -1); }
  // Whether the model has the class of image `i`.
  bool is_known(std::size_t i) const;
  UnknownLabels unknown() const;

 private:
  const Dataset& set_;
  std::vector<bool> is_known_;  // by class id of the set
  bool any_ = false;
};

// Why labels that are numbers are those of the model's classes beside them: one of the two counts
// from 0. Sentences; empty: they are not, or an explicit --first-label says so.
std::string fault_of_numbers(const Dataset& set, const std::vector<std::string>& classes,
                             std::optional<int> first_label);

// Reads the image files named in a list, one path per line, in portions. If zero bytes come before
// the first line was taken, they end the paths, as those of `find -print0`. The list may be of any
// length and may still be growing. Use from one thread.
class FileList {
 public:
  // `list` is a file, or "-" for standard input. Relative paths in it are relative to `root`, or to
  // the working directory if that is empty. Throws Error kUserError.
  FileList(std::string list, std::filesystem::path root);
  ~FileList();
  FileList(const FileList&) = delete;
  FileList& operator=(const FileList&) = delete;

  // Whether another FileList would read the same list: not for a pipe or standard input.
  bool can_be_read_again() const;

  // Waits for at least one image, then takes those in the list so far, at most `most`; false at the
  // end of the list. Does not open the image files. Throws Error kUserError for a line longer than
  // any path, for a zero byte after lines, and if the list cannot be read.
  bool next(std::size_t most, Dataset& set);

 private:
  void read_more();
  void add_paths(std::size_t most, SampleTable& samples);
  std::string name_of(std::string_view path) const;
  [[noreturn]] void fail(const std::string& fault) const;

  std::string list_;
  std::filesystem::path root_;
  int file_ = -1;
  std::string text_;                 // read and not yet taken
  bool has_begun_ = false;           // its first line was taken
  std::optional<char> end_of_path_;  // unknown until the first one is complete
  bool at_end_ = false;
};

}  // namespace kiln
