#include "data/dataset/found_labels.h"

#include <algorithm>
#include <charconv>
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

bool is_class_number(const std::string& text) {
  constexpr std::size_t kMaxDigits = 5;  // ids are below 100,000
  return !text.empty() && text.size() <= kMaxDigits &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t class_number(const std::string& text) {
  return is_class_number(text) ? std::stoll(text) : -1;
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
  auto next = texts.begin();
  const auto text = [&]() -> const std::string& {
    if (next == texts.end()) throw InternalError("the labels are truncated");
    return *next++;
  };
  const auto number = [&] {
    const std::string& digits = text();
    std::int64_t value = -1;
    const char* end = digits.data() + digits.size();
    const auto [stop, fault] = std::from_chars(digits.data(), end, value);
    if (fault != std::errc() || stop != end || (value < 0 && digits != "-1"))
      throw InternalError("the labels have a wrong number");
    return value;
  };
  FoundLabels found;
  found.where = text();
  found.note = text();
  found.named_by = text();
  found.reads_numbers = number() == 1;
  for (std::int64_t left = number(); left > 0; --left) {
    RawLabel& label = found.labels.emplace_back();
    label.number = number();
    label.text = text();
    label.is_written = number() == 1;
    found.ids.push_back(static_cast<int>(number()));
  }
  found.names.assign(next, texts.end());
  return found;
}

}  // namespace kiln
