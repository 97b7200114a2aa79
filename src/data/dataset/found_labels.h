// The labels of images: as they stand in the data, in label files (`.cls`) or elsewhere, and what
// they mean.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"

namespace kiln {

// Which label file belongs to which image is one rule for folders, archives, shards and streams,
// stated in docs/formats.md ("Label files"). The key of a file is WebDataset's: its folder and its
// file name up to the first dot.

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

// The label in a file's text: one line, without a byte-order mark and blanks around it. Throws
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

// What the data say about the class of an image.
struct RawLabel {
  std::int64_t number = -1;  // -1: none
  std::string text = {};     // the name of the class; empty: none
  bool is_written = false;   // `text` may also be a number: which, is decided for all labels
  auto operator<=>(const RawLabel&) const = default;
};

// The labels of a dataset, or of one rank's part of it.
struct FoundLabels {
  std::vector<RawLabel> labels;     // distinct
  std::vector<std::string> places;  // "'a.tfrecord'", where each label was found; may be empty
  std::vector<std::string> names;   // the given classes, in order; empty: none are given
  std::string named_by;             // what gives them: "--classes 'FILE'", "classes.txt"
  std::string where;                // in errors: "Training dataset 'PATH'"
  // After the decision: whether written labels are numbers, the class of each label, and what was
  // assumed, for the log.
  bool reads_numbers = false;
  std::vector<int> ids = {};
  std::string note = {};
};

// What is needed to decide again together with other parts, for base/bytes.h: all but the places.
void visit_fields(Is<RawLabel> auto& label, auto&& field) {
  fields(field, "number", label.number, "text", label.text, "is_written", label.is_written);
}
void visit_fields(Is<FoundLabels> auto& found, auto&& field) {
  fields(field, "labels", found.labels, "names", found.names, "named_by", found.named_by, "where",
         found.where, "reads_numbers", found.reads_numbers, "ids", found.ids, "note", found.note);
}

// Up to five digits; their number, or -1 for any other text.
bool is_class_number(const std::string& text);
std::int64_t class_number(const std::string& text);

// What labels mean: one decision for all files and parts of a dataset, for both sets of a run, and
// for every command. docs/formats.md ("What labels mean") states the rule. Conflicts are Error
// kInvalidDataset, naming both sides.

// Adds labels that are written as text, which must be UTF-8.
void take_texts(const std::vector<std::string>& texts, FoundLabels& found);

// Decides whether the written labels of all parts are names or numbers: sets reads_numbers. Those
// of a part are numbers if all look like it, and not all are given names; where all are both, they
// are numbers if any other part has numbers. Returns what to log, or nothing. Numbers among names,
// and one number in two spellings, are conflicts.
std::string decide_readings(const std::vector<FoundLabels*>& parts);

using LabelParts = std::vector<const FoundLabels*>;

// The number of the first class, which suits all parts of both sets; empty where no label is a
// number. `note` gets what was assumed. `given` is --first-label.
std::optional<int> find_first_label(const LabelParts& train, const LabelParts& valid,
                                    std::optional<int> given, std::string& note);

struct LabelMeaning {
  std::vector<std::string> classes;   // by id
  std::vector<std::vector<int>> ids;  // of each part's labels
  std::optional<int> first_label;     // as given to meaning_of()
  std::string note;                   // what became of the numbers; empty: nothing to say
};

// The classes of one dataset, of which `parts` may be on several ranks. Conflicts are a name that
// is not given, numbers among names, and a class with two names or two numbers.
LabelMeaning meaning_of(const LabelParts& parts, std::optional<int> first_label);

}  // namespace kiln
