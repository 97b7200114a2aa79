#include "data/split/split_file.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "data/split/image_rows.h"

namespace kiln {
namespace {

constexpr std::size_t kMostNamed = 5;

class Reading {
 public:
  Reading(const std::string& name, const Dataset& set) : name_(name), set_(set) {}

  std::vector<Side> run(std::string_view text, const std::vector<std::string>& left_out) {
    const std::vector<ImageRow> rows = parse_image_rows(text, name_, "set", set_, problems_);
    if (rows.empty()) problems_.throw_if_any();  // otherwise all images would be reported missing
    refuse_unknown_paths(rows, name_, set_, left_out, problems_);
    sides_.resize(set_.samples.size());
    for (const ImageRow& row : rows) take(row);
    refuse_other_words();
    refuse_unnamed();
    problems_.throw_if_any();
    std::vector<Side> sides(sides_.size());
    std::transform(sides_.begin(), sides_.end(), sides.begin(),
                   [](const std::optional<Side>& side) { return side.value_or(Side::kTrain); });
    refuse_missing_sides(sides);
    problems_.throw_if_any();
    return sides;
  }

 private:
  void fail(const std::string& fault) {
    problems_.add(Error(ErrorCode::kUserError, name_ + " cannot be used: " + fault));
  }

  void take(const ImageRow& row) {
    std::optional<Side> side;
    if (row.value == "train")
      side = Side::kTrain;
    else if (row.value == "valid")
      side = Side::kValid;
    else
      other_words_.push_back(row.value + "' (line " + std::to_string(row.line) + ")");
    for (const std::uint32_t i : row.images) sides_[i] = side.value_or(Side::kTrain);
  }

  void refuse_other_words() {
    if (other_words_.empty()) return;
    fail("the column 'set' must be 'train' or 'valid', but is '" + printable(other_words_.front()) +
         (other_words_.size() == 1
              ? "."
              : formatted(", and %zu more lines are wrong.", other_words_.size() - 1)));
  }

  void refuse_unnamed() {
    std::vector<std::string> unnamed;
    for (std::size_t i = 0; i < sides_.size(); ++i)
      if (!sides_[i]) unnamed.emplace_back(set_.samples.file_name(i));
    if (unnamed.empty()) return;
    fail(formatted("it lacks %zu of the %zu images in '", unnamed.size(), sides_.size()) +
         set_.root.string() + "': " + printable(quoted_names(unnamed, kMostNamed)) +
         ". Add a line for each, or leave --split out to split all images again.");
  }

  void refuse_missing_sides(const std::vector<Side>& sides) {
    std::vector<long long> train(set_.classes.size()), valid(set_.classes.size());
    for (std::size_t i = 0; i < sides.size(); ++i)
      ++(sides[i] == Side::kValid ? valid : train)[static_cast<std::size_t>(set_.samples.label(i))];
    const auto num_valid = std::count(sides.begin(), sides.end(), Side::kValid);
    if (num_valid == 0) fail("it has no image with the set 'valid'. Give some of each class.");
    std::vector<std::string> only_valid;
    for (std::size_t c = 0; c < train.size(); ++c)
      if (train[c] == 0 && valid[c] > 0) only_valid.push_back(set_.classes[c]);
    if (!only_valid.empty())
      fail("no image of class " + printable(quoted_names(only_valid, kMostNamed)) +
           " has the set 'train', so it cannot be learned.");
  }

  const std::string& name_;
  const Dataset& set_;
  Problems problems_;
  std::vector<std::optional<Side>> sides_;
  std::vector<std::string> other_words_;
};

// Counts the images whose label in the file is not the one in the set; 0 for a file without labels.
std::size_t count_other_labels(std::string_view text, const std::string& name, const Dataset& set) {
  Problems unimportant;
  std::size_t count = 0;
  for (const ImageRow& row : parse_image_rows(text, name, "label", set, unimportant))
    for (const std::uint32_t i : row.images)
      if (row.value != set.classes[static_cast<std::size_t>(set.samples.label(i))]) ++count;
  return count;
}

}  // namespace

std::string format_split(const Dataset& set, const std::vector<Side>& sides,
                         const std::vector<std::uint32_t>& groups) {
  std::string text = "path,label,set,group\n";
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const auto label = static_cast<std::size_t>(set.samples.label(i));
    text += csv_field(std::string(set.samples.file_name(i))) + "," + csv_field(set.classes[label]) +
            (sides[i] == Side::kValid ? ",valid," : ",train,") +
            (groups.empty() ? "" : std::to_string(groups[i])) + "\n";
  }
  return text;
}

SplitFile parse_split(std::string_view text, const std::string& name, const Dataset& set,
                      const std::vector<std::string>& left_out) {
  SplitFile file{Reading(name, set).run(text, left_out)};
  file.num_other_labels = count_other_labels(text, name, set);
  return file;
}

}  // namespace kiln
