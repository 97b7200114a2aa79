#include "data/dataset/found_labels.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxDigits = 5;  // ids are below 100,000

std::int64_t number_in(const std::string& text) {
  std::int64_t number = -1;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? number : -1;
}

class TextReader {
 public:
  explicit TextReader(const std::vector<std::string>& texts) : texts_(texts) {}
  const std::string& text() {
    if (at_ == texts_.size()) throw InternalError("the labels are truncated");
    return texts_[at_++];
  }
  std::int64_t number() {
    const std::string& digits = text();
    if (digits == "-1") return -1;
    const std::int64_t number = number_in(digits);
    if (number < 0) throw InternalError("the labels have a wrong number");
    return number;
  }
  std::size_t left() const { return texts_.size() - at_; }

 private:
  const std::vector<std::string>& texts_;
  std::size_t at_ = 0;
};

}  // namespace

void fail_labels(const FoundLabels& found, const std::string& text) {
  throw Error(ErrorCode::kInvalidDataset, found.where + ": " + text);
}

bool is_class_number(const std::string& text) {
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::string> to_texts(const FoundLabels& found) {
  std::vector<std::string> texts = {found.where, found.note, found.named_by,
                                    std::to_string(found.labels.size())};
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    texts.push_back(std::to_string(found.labels[i].number));
    texts.push_back(found.labels[i].text);
    texts.push_back(std::to_string(found.ids[i]));
  }
  texts.insert(texts.end(), found.names.begin(), found.names.end());
  return texts;
}

FoundLabels from_texts(const std::vector<std::string>& texts) {
  TextReader reader(texts);
  FoundLabels found;
  found.where = reader.text();
  found.note = reader.text();
  found.named_by = reader.text();
  const std::int64_t count = reader.number();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = reader.number();
    found.labels.push_back({number, reader.text()});
    found.ids.push_back(static_cast<int>(reader.number()));
  }
  while (reader.left() > 0) found.names.push_back(reader.text());
  return found;
}

void take_texts(const std::vector<std::string>& texts, FoundLabels& found) {
  const std::set<std::string_view> names(found.names.begin(), found.names.end());
  bool all_are_names = true;
  const std::string *number = nullptr, *name = nullptr;
  for (const std::string& text : texts) {
    if (!is_utf8(text))
      fail_labels(found, "the class '" + printable(text.substr(0, 200)) +
                             "' of an image is not UTF-8. Rename it.");
    all_are_names = all_are_names && names.contains(text);
    (is_class_number(text) ? number : name) = &text;
  }
  if (number != nullptr && name != nullptr && !all_are_names)
    fail_labels(found, "labels are numbers ('" + *number + "') and names ('" + excerpt(*name) +
                           "') of classes. Write the names, or the numbers, in all of them.");
  std::map<std::int64_t, std::string> spellings;
  for (const std::string& text : texts) {
    if (all_are_names || name != nullptr) {
      found.labels.push_back({-1, text});
      continue;
    }
    found.labels.push_back({number_in(text), ""});
    const auto [other, is_new] = spellings.emplace(number_in(text), text);
    if (!is_new)
      fail_labels(found, "labels are '" + other->second + "' and '" + text +
                             "'. Write each number in one way.");
  }
}

LabelPart::LabelPart(const FoundLabels& found) : found_(found) {
  for (std::size_t i = 0; i < found.names.size(); ++i)
    lines_.emplace(found.names[i], static_cast<int>(i));
  bool all_are_names = !found.names.empty();
  for (const RawLabel& label : found.labels) {
    all_are_names = all_are_names && lines_.contains(label.text);
    if (label.number < 0) continue;
    lowest_ = has_numbers_ ? std::min(lowest_, label.number) : label.number;
    highest_ = std::max(highest_, label.number);
    has_numbers_ = true;
  }
  is_numbered_ = has_numbers_ && !all_are_names;
  for (const RawLabel& label : found.labels)
    if (is_numbered_ && label.number >= 0 && !label.text.empty())
      numbers_.emplace(label.text, label.number);
}

int LabelPart::line(const std::string& name) const {
  const auto line = lines_.find(name);
  return line == lines_.end() ? -1 : line->second;
}

std::int64_t LabelPart::number(const RawLabel& label) const {
  if (label.number >= 0) return label.number;
  const auto named = numbers_.find(label.text);
  return named == numbers_.end() ? -1 : named->second;
}

bool LabelPart::suits(int first) const {
  return std::all_of(found_.labels.begin(), found_.labels.end(), [&](const RawLabel& label) {
    const std::int64_t id = label.number - first;
    if (label.number < 0) return true;
    if (id < 0) return false;
    if (!is_listed()) return true;
    return id < std::ssize(found_.names) &&
           (is_numbered_ || found_.names[static_cast<std::size_t>(id)] == label.text);
  });
}

}  // namespace kiln
