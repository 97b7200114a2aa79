// What the labels of images mean: which classes there are, in which order, and which an image has.
// docs/formats.md ("What labels mean") has the rule as a table. Every reader collects labels as
// they stand in the data, and one decision (defined in labels.cpp) is made for all files and parts
// of a dataset, for both sets of a run and for every command.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "record/vocabulary.h"

namespace kiln {

struct Dataset;

constexpr std::size_t kMaxClasses = 100'000;  // ids have five digits

// Between the classes of an image in a list, and in texts.
inline constexpr char kLabelSeparator = ';';

// Which classes the labels of a dataset stand for: one each or, with --task multi-label, as many as
// an image has.
struct LabelClasses {
  // A label is an index into these: the ids of an image's classes, ascending, for each combination
  // that occurs. Empty: a label is the id of its class.
  std::vector<std::vector<int>> sets;

  // Calls `visit` with the id of each class of a label; of none for -1.
  template <typename Visit>
  void visit(int label, Visit&& visit) const {
    if (label < 0) return;
    if (sets.empty()) return visit(label);
    for (const int id : sets[static_cast<std::size_t>(label)]) visit(id);
  }
  TaskKind task() const { return sets.empty() ? TaskKind::kSingleLabel : TaskKind::kMultiLabel; }
  // How many labels there are.
  std::size_t count(std::size_t num_classes) const {
    return sets.empty() ? num_classes : sets.size();
  }
};

// Combinations of classes, each with the label that stands for it.
class LabelSets {
 public:
  // `ids` in any order, also repeated.
  int label_of(std::vector<int> ids);
  const std::vector<std::vector<int>>& sets() const { return sets_; }

 private:
  std::map<std::vector<int>, int> labels_;
  std::vector<std::vector<int>> sets_;
};

// What the data say about the class of an image.
struct RawLabel {
  std::string text;        // a name, or a number as it is written; empty: only `name` is known
  std::string name = {};   // of the number `text`, if the data say it
  bool is_number = false;  // `text` is a number by its form, and not the name of a class
  auto operator<=>(const RawLabel&) const = default;
};

// The labels of a dataset, or of one rank's part of it.
struct FoundLabels {
  std::vector<RawLabel> labels;     // distinct
  std::vector<std::string> places;  // "'a.tfrecord'", where each label was found; may be empty
  std::vector<std::string> names;   // the given classes, in order; empty: none are given
  std::string named_by;             // what gives them: "--classes 'FILE'", "classes.txt"
  std::string where;                // in errors: "Training dataset 'PATH'"
  bool are_names = false;           // of folders: never numbers, whatever they look like
  // Decided: whether labels are numbers of given classes, the class of each, and what is said.
  bool are_lines = false;
  std::vector<int> ids = {};
  std::string note = {};
};

// All but the places and the note.
void visit_fields(Is<RawLabel> auto& label, auto&& field) {
  fields(field, "text", label.text, "name", label.name, "is_number", label.is_number);
}
void visit_fields(Is<FoundLabels> auto& found, auto&& field) {
  fields(field, "labels", found.labels, "names", found.names, "named_by", found.named_by, "where",
         found.where, "are_names", found.are_names, "are_lines", found.are_lines, "ids", found.ids);
}

// Up to five digits; their number, or -1 for any other text.
bool is_class_number(const std::string& text);
std::int64_t class_number(const std::string& text);

struct LabelMeaning {
  std::vector<std::string> classes;   // by id
  std::vector<std::vector<int>> ids;  // of each part's labels
  std::string note;                   // empty: nothing to say
};

using LabelParts = std::vector<FoundLabels*>;

// Decides which labels are numbers of given classes (are_lines), and returns the number of the
// first class: --first-label, if given, or the only one that all numbers of both sets suit. Empty:
// there are no such numbers. Where 0 and 1 both suit, that is an error, unless `is_part`: the
// labels are decided again with others, and 0 stands until then. Throws Error kInvalidDataset, as
// meaning_of() does, naming both sides.
std::optional<int> first_number(const LabelParts& parts, std::optional<int> given,
                                bool is_part = false);

// The classes of one dataset, of which `parts` may be on several ranks, after first_number().
LabelMeaning meaning_of(const LabelParts& parts, int first);

// The same for the labels of datasets, whose samples then have the ids of classes.

// The labels of a set; of folders and lists whose labels are names, those of its classes.
FoundLabels found_labels(const Dataset& set);
// For one set, just read: its samples' labels are indices into found.labels.
void decide_labels(Dataset& set, std::optional<int> first_label, bool is_part);
// Decides again for both sets of a run, and maps the classes of `valid` to those of `train`.
void decide_labels(Dataset& train, Dataset& valid, std::optional<int> first_label);
// The same where other ranks have parts of the sets. `trains` and `valids` are found_labels() of
// all ranks; `rank` says which are this rank's. Streams of training images have none, and take the
// classes of the validation images.
void decide_labels(std::vector<FoundLabels> trains, std::vector<FoundLabels> valids,
                   std::size_t rank, std::optional<int> first_label, Dataset& train,
                   Dataset& valid);

// Maps the labels of `valid` to the class ids of `train`, by name. Error 18 names what `train`
// lacks.
void map_classes(const Dataset& train, Dataset& valid);

}  // namespace kiln
