#include "data/dataset/found_labels.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/text_file.h"
#include "data/dataset/folder_entries.h"

namespace kiln {
namespace {

constexpr std::string_view kExtension = ".cls";

bool is_shorter(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string shown(std::string_view name) {
  return "'" + printable(name.substr(0, 200)) + "'";
}

}  // namespace

bool is_label_file(std::string_view name) {
  return has_extension(name, kExtension);
}

std::string_view key_of(std::string_view name) {
  return name.substr(0, name.find('.', name.rfind('/') + 1));
}

std::string_view without_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos || dot < name.rfind('/') + 1 ? name : name.substr(0, dot);
}

std::string label_in(std::string_view file_name, std::string_view text) {
  text = without_byte_order_mark(text);
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  const char* fault = text.empty()                   ? "is empty"
                      : text.size() > kMaxLabelBytes ? "has more than 256 bytes"
                      : text.find('\n') != text.npos ? "has more than one line"
                                                     : nullptr;
  if (fault != nullptr)
    throw LabelFault("the label file " + shown(file_name) + " " + fault +
                     "; it must have the name or number of one class");
  return std::string(text);
}

void LabelFiles::add(std::string_view name, std::string_view text) {
  const std::string label = label_in(name, text);
  const auto [id, is_new] = ids_.emplace(label, static_cast<int>(labels_.size()));
  if (is_new) labels_.push_back(label);
  const auto [found, is_first] =
      by_name_.emplace(std::string(without_extension(name)), files_.size());
  if (!is_first) {
    if (files_[found->second].label == id->second) return;
    throw LabelFault("two label files " + shown(name) + " have different labels, '" +
                     excerpt(labels_[static_cast<std::size_t>(files_[found->second].label)]) +
                     "' and '" + excerpt(label) + "'");
  }
  by_key_[std::string(key_of(name))].push_back(files_.size());
  files_.push_back({std::string(name), id->second});
}

std::size_t LabelFiles::file_named(std::string_view stem) const {
  const auto found = by_name_.find(std::string(stem));
  return found == by_name_.end() ? kNoFile : found->second;
}

const std::string* LabelFiles::own_label(std::string_view image) const {
  const std::size_t own = file_named(without_extension(image));
  return own == kNoFile ? nullptr : &labels_[static_cast<std::size_t>(files_[own].label)];
}

void LabelFiles::require_agreement(std::string_view image, std::size_t own,
                                   std::size_t other) const {
  const File &a = files_[own], &b = files_[other];
  if (a.label == b.label) return;
  const auto label_of = [&](const File& file) {
    return "'" + excerpt(labels_[static_cast<std::size_t>(file.label)]) + "'";
  };
  throw LabelFault("the image " + shown(image) + " has two label files, " + shown(a.name) +
                   " and " + shown(b.name) + ", with different labels, " + label_of(a) + " and " +
                   label_of(b));
}

LabelFiles::Match LabelFiles::match(const std::vector<std::string_view>& images) const {
  Match match{std::vector<ImageLabel>(images.size()), {}};
  std::vector<std::size_t> own(images.size());
  std::vector<bool> is_owned(files_.size()), is_used(files_.size());
  for (std::size_t i = 0; i < images.size(); ++i) {
    own[i] = file_named(without_extension(images[i]));
    if (own[i] != kNoFile) is_owned[own[i]] = true;
  }
  // The photograph of each key whose only label file no image owns.
  std::unordered_map<std::size_t, std::size_t> photographs;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const auto key = by_key_.find(std::string(key_of(images[i])));
    if (key == by_key_.end()) continue;
    if (own[i] != kNoFile) {
      match.images[i] = {ImageLabel::Kind::kGiven, files_[own[i]].label};
      // KEY.cls without an image KEY.ext speaks for the whole key.
      const std::size_t whole = file_named(key->first);
      if (whole != kNoFile && !is_owned[whole]) {
        require_agreement(images[i], own[i], whole);
        is_used[whole] = true;
      }
      continue;
    }
    match.images[i].kind = ImageLabel::Kind::kBesidePhotograph;
    if (key->second.size() > 1 || is_owned[key->second.front()]) continue;
    const auto [best, is_first] = photographs.emplace(key->second.front(), i);
    if (!is_first && is_shorter(images[i], images[best->second])) best->second = i;
  }
  for (const auto& [file, image] : photographs)
    match.images[image] = {ImageLabel::Kind::kGiven, files_[file].label};
  for (std::size_t file = 0; file < files_.size(); ++file)
    if (!is_owned[file] && !is_used[file] && !photographs.contains(file))
      match.spare.push_back(files_[file].name);
  return match;
}

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
