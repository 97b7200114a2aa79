#include "data/dataset/found_labels.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

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

std::int64_t class_number(const std::string& text) {
  return is_class_number(text) ? number_in(text) : -1;
}

std::vector<std::string> to_texts(const FoundLabels& found) {
  std::vector<std::string> texts = {found.where, found.note, found.named_by,
                                    std::to_string(static_cast<int>(found.reads_numbers)),
                                    std::to_string(found.labels.size())};
  for (std::size_t i = 0; i < found.labels.size(); ++i) {
    texts.push_back(std::to_string(found.labels[i].number));
    texts.push_back(found.labels[i].text);
    texts.push_back(std::to_string(static_cast<int>(found.labels[i].is_written)));
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
  found.reads_numbers = reader.number() == 1;
  const std::int64_t count = reader.number();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t number = reader.number();
    const std::string& text = reader.text();
    found.labels.push_back({number, text, reader.number() == 1});
    found.ids.push_back(static_cast<int>(reader.number()));
  }
  while (reader.left() > 0) found.names.push_back(reader.text());
  return found;
}

void take_texts(const std::vector<std::string>& texts, FoundLabels& found) {
  for (const std::string& text : texts) {
    if (!is_utf8(text))
      fail_labels(found, "the class '" + printable(text.substr(0, 200)) +
                             "' of an image is not UTF-8. Rename it.");
    found.labels.push_back({.text = text, .is_written = true});
  }
}

namespace {

// What the written labels of a part look like; nullptr: there is none of the kind.
struct Written {
  FoundLabels* found = nullptr;
  const std::string* name = nullptr;    // can only be a name
  const std::string* number = nullptr;  // can only be a number
  const std::string* either = nullptr;  // a given name that looks like a number
};

Written written_in(FoundLabels& found) {
  Written written{.found = &found};
  const std::set<std::string_view> names(found.names.begin(), found.names.end());
  for (const RawLabel& label : found.labels) {
    if (!label.is_written) continue;
    const bool is_given = !found.named_by.empty() && names.contains(label.text);
    (!is_class_number(label.text) ? written.name
     : is_given                   ? written.either
                                  : written.number) = &label.text;
  }
  if (written.name != nullptr && written.number != nullptr)
    fail_labels(found, "labels are numbers ('" + *written.number + "') and names ('" +
                           excerpt(*written.name) +
                           "') of classes. Write the names, or the numbers, in all of them.");
  return written;
}

void require_one_spelling(const std::vector<FoundLabels*>& parts) {
  std::map<std::int64_t, std::string_view> spellings;
  for (const FoundLabels* found : parts) {
    for (const RawLabel& label : found->labels) {
      if (!found->reads_numbers || !label.is_written) continue;
      const auto [other, is_new] = spellings.emplace(number_in(label.text), label.text);
      if (other->second != label.text)
        fail_labels(*found, "labels are '" + std::string(other->second) + "' and '" + label.text +
                                "'. Write each number in one way.");
    }
  }
}

}  // namespace

std::string decide_readings(const std::vector<FoundLabels*>& parts) {
  std::vector<Written> all;
  const FoundLabels* numbered = nullptr;
  for (FoundLabels* found : parts) {
    all.push_back(written_in(*found));
    if (all.back().number != nullptr ||
        std::any_of(found->labels.begin(), found->labels.end(),
                    [](const RawLabel& label) { return label.number >= 0 && label.text.empty(); }))
      numbered = found;
  }
  const std::string* both = nullptr;
  for (const Written& written : all) {
    FoundLabels& found = *written.found;
    if (numbered != nullptr && written.name != nullptr && written.either != nullptr)
      fail_labels(found, "the label '" + *written.either +
                             "' is the name of a class and may be a number: labels beside it are "
                             "names ('" +
                             excerpt(*written.name) + "'), but those of " + numbered->where +
                             " are numbers. Write the names, or the numbers, in all of them.");
    found.reads_numbers =
        written.number != nullptr || (numbered != nullptr && written.either != nullptr);
    if (found.reads_numbers && written.either != nullptr) both = written.either;
  }
  require_one_spelling(parts);
  return both == nullptr ? std::string()
                         : "the labels are read as numbers, since not all of them are names of "
                           "classes, though '" +
                               *both + "' is one";
}

LabelPart::LabelPart(const FoundLabels& found) : found_(found), labels_(found.labels) {
  for (std::size_t i = 0; i < found.names.size(); ++i)
    lines_.emplace(found.names[i], static_cast<int>(i));
  for (RawLabel& label : labels_) {
    if (std::exchange(label.is_written, false) && found.reads_numbers) {
      label.number = number_in(label.text);
      // Without given names, a spelling such as 01 is the name of its class.
      if (is_listed() || label.text == std::to_string(label.number)) label.text.clear();
    }
    is_numbered_ = is_numbered_ || !lines_.contains(label.text);
    if (label.number < 0) continue;
    lowest_ = has_numbers_ ? std::min(lowest_, label.number) : label.number;
    highest_ = std::max(highest_, label.number);
    has_numbers_ = true;
  }
  is_numbered_ = is_numbered_ && has_numbers_;
  for (const RawLabel& label : labels_)
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

const RawLabel* LabelPart::misfit(int first) const {
  const auto found = std::find_if(labels_.begin(), labels_.end(), [&](const RawLabel& label) {
    const std::int64_t id = label.number - first;
    if (label.number < 0) return false;
    if (id < 0) return true;
    if (!is_listed()) return false;
    const int own = line(label.text);
    return id >= std::ssize(found_.names) || (own >= 0 && own != id);
  });
  return found == labels_.end() ? nullptr : &*found;
}

}  // namespace kiln
