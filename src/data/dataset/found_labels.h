// The labels of images as they stand in the data, before it is decided what they mean
// (label_meaning.h).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kiln {

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

// What is needed to decide again together with other parts, as texts. from_texts() throws
// InternalError if the texts are not the result of to_texts().
std::vector<std::string> to_texts(const FoundLabels& found);
FoundLabels from_texts(const std::vector<std::string>& texts);

// Adds labels that are written as text. Throws Error kInvalidDataset for text that is not UTF-8.
void take_texts(const std::vector<std::string>& texts, FoundLabels& found);

// Decides whether the written labels of all parts are names or numbers: sets reads_numbers. Those
// of a part are numbers if all look like it, and not all are given names; where all are both, they
// are numbers if any other part has numbers. Returns what to log, or nothing. Throws Error
// kInvalidDataset for numbers among names, and for one number in two spellings.
std::string decide_readings(const std::vector<FoundLabels*>& parts);

// Throws Error kInvalidDataset: "Training dataset 'PATH': `text`".
[[noreturn]] void fail_labels(const FoundLabels& found, const std::string& text);

// Up to five digits.
bool is_class_number(const std::string& text);
// Their number; -1 for any other text.
std::int64_t class_number(const std::string& text);

// FoundLabels as the decision looks at them. They must outlive it.
class LabelPart {
 public:
  explicit LabelPart(const FoundLabels& found);

  const FoundLabels& found() const { return found_; }
  // found().labels as they are read: none is_written.
  const std::vector<RawLabel>& labels() const { return labels_; }
  bool has_numbers() const { return has_numbers_; }
  // Whether the numbers say which class a label is, and not the names.
  bool is_numbered() const { return is_numbered_; }
  bool is_listed() const { return !found_.named_by.empty(); }
  std::int64_t lowest() const { return lowest_; }
  std::int64_t highest() const { return highest_; }
  std::string range() const {
    return lowest_ == highest_ ? std::to_string(lowest_)
                               : std::to_string(lowest_) + " to " + std::to_string(highest_);
  }
  // The line of a given name; -1: it is none of them.
  int line(const std::string& name) const;
  // The number of a label, or of its name; -1: unknown.
  std::int64_t number(const RawLabel& label) const;

  // Whether the numbers can count from `first`. Numbers with a given name must be its line.
  bool suits(int first) const { return misfit(first) == nullptr; }
  // A label that does not suit; nullptr: all do.
  const RawLabel* misfit(int first) const;

 private:
  const FoundLabels& found_;
  std::vector<RawLabel> labels_;
  std::unordered_map<std::string_view, int> lines_;
  std::unordered_map<std::string_view, std::int64_t> numbers_;
  bool has_numbers_ = false, is_numbered_ = false;
  std::int64_t lowest_ = -1, highest_ = -1;
};

}  // namespace kiln
