// Which label file (`.cls`) belongs to which image: one rule for folders, archives, shards and
// streams, stated in docs/formats.md ("Label files"). The key of a file is WebDataset's: its folder
// and its file name up to the first dot.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {

inline constexpr std::size_t kMaxLabelBytes = 256;

// Ends in .cls, in any case.
bool is_label_file(std::string_view name);
// "set.v2/img" for "set.v2/img.final.00.png".
std::string_view key_of(std::string_view name);
// "set.v2/img.final.00" for "set.v2/img.final.00.png".
std::string_view without_extension(std::string_view name);

// Why label files cannot be used, as a clause that names them.
class LabelFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The label in a file's text: one line, without a byte-order mark and surrounding blanks. Throws
// LabelFault if that is empty, too long, or more than a line.
std::string label_in(std::string_view file_name, std::string_view text);

// What a set's label files say about one of its images.
struct ImageLabel {
  enum class Kind {
    kNone,             // its key has no label file
    kGiven,            // `label`
    kBesidePhotograph  // another image of its key is the photograph
  };
  Kind kind = Kind::kNone;
  int label = -1;  // index into LabelFiles::labels()
};

// Collects the label files of a set, and then answers for its images.
class LabelFiles {
 public:
  // Throws LabelFault if another file of this name has another label.
  void add(std::string_view name, std::string_view text);
  bool empty() const { return files_.empty(); }
  // The distinct labels, in the order of their first file.
  const std::vector<std::string>& labels() const { return labels_; }

  // The label of the image's own file, X.cls for X.jpg; nullptr if there is none so far.
  const std::string* own_label(std::string_view image) const;

  struct Match {
    std::vector<ImageLabel> images;  // in their order
    std::vector<std::string> spare;  // names of the label files that no image has
  };
  // `images` are all of the set. Throws LabelFault, naming both files, if two label files claim one
  // image with different labels.
  Match match(const std::vector<std::string_view>& images) const;

 private:
  struct File {
    std::string name;
    int label = 0;
  };

  static constexpr std::size_t kNoFile = -1;
  std::size_t file_named(std::string_view stem) const;
  void require_agreement(std::string_view image, std::size_t own, std::size_t other) const;

  std::vector<File> files_;
  std::unordered_map<std::string, std::size_t> by_name_;  // without the extension
  std::unordered_map<std::string, std::vector<std::size_t>> by_key_;
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> labels_;
};

}  // namespace kiln
