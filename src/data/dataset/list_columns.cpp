#include "data/dataset/label_list.h"

#include <algorithm>
#include <utility>

#include "base/names.h"
#include "base/text.h"

namespace kiln {
namespace {

// In the order of ListField; the first name is that of --columns.
const std::array<std::vector<std::string_view>, kNumListFields> kFieldNames = {{
    {"path", "file", "filename", "file_name", "filepath", "image", "image_path", "image_url", "img",
     "source-ref", "image.path"},
    {"label", "class", "category", "class_name", "choice"},
    {"split", "set", "subset"},
    {"group"},
    {"weight", "sample_weight"},
    {"confidence"},  // of Open Images: 0 says that the class is not in the image
}};
// With --task multi-label.
const std::vector<std::string_view> kPluralLabelNames = {"labels", "classes", "categories", "tags",
                                                         "choices"};

// In the order of ListedSet; the first name is that of --split-name.
const std::array<std::vector<std::string_view>, 4> kSetNames = {
    {{}, {"train", "training"}, {"valid", "validation", "val"}, {"test"}}};
// What other programs call sets and the column of them.
constexpr auto kOtherSetWords = std::to_array<std::string_view>(
    {"testing", "dev", "eval", "evaluation", "holdout", "publictest", "privatetest"});
constexpr auto kOtherSetColumns = std::to_array<std::string_view>(
    {"partition", "phase", "usage", "ml_use", "data_split", "split_name", "set_name", "is_train",
     "is_valid", "is_val", "is_test"});
constexpr std::size_t kMostSets = 6;

// What programs write where a value is missing (pandas.read_csv, na_values), in small letters.
constexpr auto kMissingValues =
    std::to_array<std::string_view>({"nan", "none", "null", "n/a", "na", "<na>", "nat", "#n/a",
                                     "unlabeled", "_unlabeled", "no_label"});  // FiftyOne

}  // namespace

std::optional<ListField> ListColumns::field_of(std::string_view column) {
  const std::string small = in_small_letters(trimmed(column));
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i].second != column) continue;
    is_met_[i] = true;
    for (std::size_t place = 0; place < kNumListFields; ++place)
      if (given_[i].first == kFieldNames[place].front()) return static_cast<ListField>(place);
  }
  for (std::size_t place = 0; place < kNumListFields; ++place) {
    const auto field = static_cast<ListField>(place);
    if (is_given(field)) continue;
    if (std::ranges::count(kFieldNames[place], small) > 0 ||
        (has_several_labels_ && field == ListField::kLabel &&
         std::ranges::count(kPluralLabelNames, small) > 0))
      return field;
  }
  return std::nullopt;
}

void ListColumns::refuse_repeats() const {
  for (std::size_t i = 0; i < given_.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      if (given_[i].first == given_[k].first)
        throw RowFault("--columns gives '" + given_[i].first + "' twice");
      if (given_[i].second == given_[k].second && !given_[i].second.empty())
        throw RowFault("--columns gives the column '" + given_[i].second + "' to both '" +
                       given_[k].first + "' and '" + given_[i].first + "'");
    }
}

bool ListColumns::is_given(ListField field) const {
  const std::string_view key = kFieldNames[static_cast<std::size_t>(field)].front();
  return std::ranges::any_of(given_, [&](const auto& pair) { return pair.first == key; });
}

std::optional<ListPlaces> ListColumns::places(const std::vector<std::string>& columns) {
  ListPlaces places = kNoPlaces;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::optional<ListField> field = field_of(columns[i]);
    if (!field) continue;
    std::size_t& place = places[static_cast<std::size_t>(*field)];
    const std::string key(kFieldNames[static_cast<std::size_t>(*field)].front());
    if (place != kNoColumn)
      throw RowFault("has the columns '" + columns[place] + "' and '" + columns[i] +
                     "', which may both be the " + key + ": choose one with --columns " + key +
                     "=NAME");
    place = i;
  }
  if (const std::vector<std::string> none = missing(); !none.empty())
    throw RowFault("has no column " + none.front() + ", which --columns names");
  if (const std::size_t label = places[static_cast<std::size_t>(ListField::kLabel)];
      label != kNoColumn)
    for (const std::string& column : columns) refuse_second_label(columns[label], column);
  if (places[0] == kNoColumn)  // of Kaggle; elsewhere it may stand beside the path
    for (std::size_t i = 0; i < columns.size(); ++i)
      if (in_small_letters(trimmed(columns[i])) == "image_id") places[0] = i;
  if (places[0] == kNoColumn) return std::nullopt;
  return places;
}

void ListColumns::refuse_second_label(const std::string& label, const std::string& column) const {
  if (!has_several_labels_ || is_given(ListField::kLabel) || column == label) return;
  const auto without_number = [](const std::string& name) {
    return in_small_letters(name.substr(0, name.find_last_not_of("0123456789_-. ") + 1));
  };
  if (without_number(column) == without_number(label))
    throw RowFault("has the columns '" + label + "' and '" + column +
                   "': write the labels of an image into one column, with a ';' between them, or " +
                   "choose one with --columns label=NAME");
}

std::optional<ListPlaces> ListColumns::numbers(std::size_t num_columns) {
  ListPlaces places = kNoPlaces;
  std::vector<bool> is_there(given_.size());
  for (std::size_t i = 0; i < given_.size(); ++i) {
    const auto& [key, name] = given_[i];
    const std::int64_t number = class_number(name);
    is_there[i] = number > 0 && static_cast<std::uint64_t>(number) <= num_columns;
    for (std::size_t field = 0; field < kNumListFields; ++field)
      if (key == kFieldNames[field].front() && number > 0) places[field] = number - 1;
  }
  if (places[0] == kNoColumn) return std::nullopt;
  is_met_ = std::move(is_there);
  if (const std::vector<std::string> none = missing(); !none.empty())
    throw RowFault("has " + std::to_string(num_columns) + " columns in its first line, and none " +
                   none.front() + ", which --columns names: give the number of each");
  return places;
}

std::vector<std::string> ListColumns::missing() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < given_.size(); ++i)
    if (!is_met_[i] && !given_[i].second.empty() && given_[i].second != "*")
      names.push_back("'" + given_[i].second + "'");
  return names;
}

std::optional<ListedSet> listed_set(std::string_view word) {
  const auto known = std::ranges::find_if(
      kSetNames, [&](const auto& names) { return std::ranges::count(names, word) > 0; });
  if (known == kSetNames.end()) return std::nullopt;
  return static_cast<ListedSet>(known - kSetNames.begin());
}

bool is_wanted(const RecordOptions& records, ListedSet set) {
  return records.list_sets.empty() || set == ListedSet::kNone ||
         std::ranges::count(records.list_sets, set_name(set)) > 0;
}

RecordOptions of_sets(RecordOptions records, std::vector<std::string> sets) {
  records.list_sets = std::move(sets);
  records.requires_sets = false;
  return records;
}

std::string_view set_name(ListedSet set) {
  return kSetNames[static_cast<std::size_t>(set)].front();
}

bool is_missing_value(std::string_view text) {
  return std::ranges::count(kMissingValues, in_small_letters(std::string(text))) > 0;
}

std::string_view without_zero_fraction(std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view rest = text.substr(digits);
  const bool is_zero = rest.starts_with('.') && rest.find_first_not_of('0', 1) == rest.npos;
  return digits > 0 && is_zero ? text.substr(0, digits) : text;
}

std::string_view plain_number(std::string_view text) {
  text = without_zero_fraction(text);
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos) return text;
  return text.substr(std::min(text.find_first_not_of('0'), text.size() - 1));
}

bool OtherColumns::has_usual_name(std::string_view column) {
  return std::ranges::count(kOtherSetColumns, in_small_letters(std::string(trimmed(column)))) > 0;
}

void OtherColumns::see(std::string_view column, std::string_view value) {
  auto known = columns_.find(column);
  const bool is_new = known == columns_.end();
  const auto place = static_cast<int>(columns_.size());
  if (is_new)
    known = columns_.emplace(std::string(column), Seen{{}, has_usual_name(column), place}).first;
  Seen& seen = known->second;
  const std::string word = in_small_letters(std::string(without_zero_fraction(trimmed(value))));
  const bool is_one = word == "1" || word == "true";
  if (is_one || word == "0" || word == "false") ++seen.num_flags;
  if (is_one) ones_.push_back(seen.place);
  if (!is_new && seen.words.empty()) return;
  const bool is_set = listed_set(word).has_value() || std::ranges::count(kOtherSetWords, word) > 0;
  if (is_set || seen.has_usual_name) seen.words.insert(word);
  if ((!is_set && !seen.has_usual_name) || seen.words.size() > kMostSets) seen.words.clear();
}

std::vector<int> OtherColumns::end_row() {
  ++num_rows_;
  return std::exchange(ones_, {});
}

std::vector<std::pair<std::string, bool>> OtherColumns::flags() const {
  std::vector<std::pair<std::string, bool>> flags(columns_.size());
  for (const auto& [column, seen] : columns_)
    flags[static_cast<std::size_t>(seen.place)] = {
        std::string(trimmed(column)),
        num_rows_ > 0 && seen.num_flags == num_rows_ && !seen.has_usual_name && is_clean(column)};
  return flags;
}

std::string OtherColumns::note() const {
  for (const auto& [column, seen] : columns_)
    if (seen.words.size() > 1)
      return "the column '" + column + "' (" +
             joined({seen.words.begin(), seen.words.end()}, ", ") +
             ") may say which set an image is of, but is not read: write train, valid and test "
             "into it and give --columns split=" +
             column + ", or --columns split= if it means something else";
  return {};
}

}  // namespace kiln
