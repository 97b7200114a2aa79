// The columns of a list of images: which has which field, and what the words of some mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/dataset/dataset.h"

namespace kiln {

enum class ListField { kPath, kLabel, kSet, kGroup, kWeight, kConfidence };
inline constexpr std::size_t kNumListFields = 6;

inline constexpr std::size_t kNoColumn = SIZE_MAX;

// Why a row cannot be used, as a clause.
class RowFault : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Which column of a list has which field: by usual names, in any case, or as --columns says.
class ListColumns {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  explicit ListColumns(const Pairs& given, bool has_several_labels = false)
      : given_(given), is_met_(given.size()), has_several_labels_(has_several_labels) {}

  // Also remembers that there is such a column.
  std::optional<ListField> field_of(std::string_view column);
  bool is_given(ListField field) const;  // by --columns
  // The place of each field among the columns; empty if none has the path. Throws RowFault if two
  // columns have one field, a column of --columns is not there, or an image may have several labels
  // and there is a second column of them.
  std::optional<std::array<std::size_t, kNumListFields>> places(
      const std::vector<std::string>& columns);
  // The places among so many columns that --columns gives as numbers; empty if that of the path is
  // no number. Throws RowFault if another one is none, or there is no such column.
  std::optional<std::array<std::size_t, kNumListFields>> numbers(std::size_t num_columns);
  // The columns of --columns that there are not, so far, in quotes.
  std::vector<std::string> missing() const;

  // Throws RowFault if an image may have several labels and `column` has some beside those of the
  // column `label`: they would count as classes that the image has not.
  void refuse_second_label(const std::string& label, const std::string& column) const;

 private:
  const Pairs& given_;
  std::vector<bool> is_met_;  // of given_
  const bool has_several_labels_;
};

// The set that a word in small letters names; empty if it names none.
std::optional<ListedSet> listed_set(std::string_view word);
// As --split-name has it: "train".
std::string_view set_name(ListedSet set);

// What is read of a list whose column `split` names the set of each image; of others everything.
RecordOptions of_sets(RecordOptions records, std::vector<std::string> sets);

// Whether programs write such a text where a value is missing: "nan", "NA".
bool is_missing_value(std::string_view text);

// "17" of "17.0"; any other text as it is.
std::string_view without_zero_fraction(std::string_view text);

// "17" of "17.0" and "017", as programs write one number; any other text as it is.
std::string_view plain_number(std::string_view text);

// Columns that are not read although they say which set an image is of.
class UnreadColumns {
 public:
  // Whether a column is one of them by its name.
  static bool has_usual_name(std::string_view column);

  void see(std::string_view column, std::string_view value);
  // How to have it read; empty if there is none.
  std::string note() const;

 private:
  struct Seen {
    std::set<std::string> words;  // none: the column holds something else
    bool has_usual_name = false;
  };
  std::map<std::string, Seen, std::less<>> columns_;
};

}  // namespace kiln
