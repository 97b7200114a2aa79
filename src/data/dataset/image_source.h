// Images to predict, with or without labels. (dataset.h has the datasets for training.)
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

// What read_dataset() reads, but of plain folders and archives every image at any depth: one that
// lies in a class folder has its label, the others have none. Or a single image file, whose root is
// its folder. Faults as read_dataset()'s.
Dataset read_every_image(const std::filesystem::path& path, const std::string& name,
                         const RecordOptions& records = {});

// Labels of images that are no classes of the model.
struct UnknownLabels {
  long long num_images = 0;
  std::vector<std::string> names;
};

// The true labels of a dataset, next to the classes of a model. Where folders give them and none is
// named after a class, they are just folders, and there are no labels.
class TrueLabels {
 public:
  // Both must outlive it.
  TrueLabels(const Dataset& set, const std::vector<std::string>& classes);

  bool any() const { return any_; }
  // Of image `i`; empty: it has none.
  std::string of(std::size_t i) const;
  // Whether the model has a class of this name.
  bool is_known(std::size_t i) const;
  UnknownLabels unknown() const;

 private:
  const Dataset& set_;
  std::vector<bool> is_known_;  // by class id of the set
  bool any_ = false;
};

// The image files that a list names, one path a line, part by part: the list may be as long as it
// likes, and may still be growing. One thread.
class FileList {
 public:
  // `list` is a file, or "-" for standard input. Relative paths in it are relative to `root`; empty
  // stands for the working directory. Throws Error kUserError.
  FileList(std::string list, std::filesystem::path root);
  ~FileList();
  FileList(const FileList&) = delete;
  FileList& operator=(const FileList&) = delete;

  // Whether another FileList reads the same: a file, and no pipe or standard input.
  bool can_be_read_again() const;

  // Waits for an image, and takes at most `most` of those that the list holds by then; false at
  // its end. The files are not opened. Throws Error kUserError for a line longer than any path, and
  // if the list cannot be read.
  bool next(std::size_t most, Dataset& set);

 private:
  void read_more();
  bool holds_more() const;
  void take_lines(std::size_t most, SampleTable& samples);
  [[noreturn]] void fail(const std::string& fault) const;

  std::string list_;
  std::filesystem::path root_;
  int file_ = -1;
  std::string text_;  // read and not yet taken
  bool at_end_ = false;
};

}  // namespace kiln
