#include "data/dataset/listing.h"

#include "base/files.h"
#include "base/names.h"
#include "base/text.h"

namespace kiln {

bool is_label_file(std::string_view name) {
  return has_extension(name, ".cls");
}

std::string_view key_of(std::string_view name) {
  return name.substr(0, name.find('.', name.rfind('/') + 1));
}

std::string_view without_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos || dot < name.rfind('/') + 1 ? name : name.substr(0, dot);
}

std::string label_in(std::string_view file_name, std::string_view text) {
  text = trimmed(without_byte_order_mark(text));
  const std::string fault = text.empty()                   ? "is empty"
                            : text.size() > kMaxLabelBytes ? "has more than 256 bytes"
                            : text.find('\n') != text.npos ? "has more than one line"
                            : !is_clean(text) ? "is not UTF-8, or has control characters: '" +
                                                    excerpt(printable(text)) + "'"
                                              : "";
  if (!fault.empty())
    throw LabelFault("the label file " + quoted_beginning(file_name) + " " + fault +
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
    throw LabelFault("two label files " + quoted_beginning(name) + " have different labels, '" +
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

LabelFiles::Match LabelFiles::match(const std::vector<std::string_view>& images) const {
  Match match{std::vector<int>(images.size(), -1), {}};
  std::vector<std::size_t> own(images.size());
  std::vector<bool> is_owned(files_.size()), is_used(files_.size());
  const auto require_same = [&](std::string_view image, const File& a, const File& b) {
    if (a.label == b.label) return;
    const auto label_of = [&](const File& file) {
      return "'" + excerpt(labels_[static_cast<std::size_t>(file.label)]) + "'";
    };
    throw LabelFault("the image " + quoted_beginning(image) + " has two label files, " +
                     quoted_beginning(a.name) + " and " + quoted_beginning(b.name) +
                     ", with different labels, " + label_of(a) + " and " + label_of(b));
  };
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
      match.images[i] = files_[own[i]].label;
      // KEY.cls without an image KEY.ext speaks for the whole key.
      const std::size_t whole = file_named(key->first);
      if (whole != kNoFile && !is_owned[whole]) {
        require_same(images[i], files_[own[i]], files_[whole]);
        is_used[whole] = true;
      }
      continue;
    }
    match.images[i] = kBesidePhotograph;
    if (key->second.size() > 1 || is_owned[key->second.front()]) continue;
    const auto [best, is_first] = photographs.emplace(key->second.front(), i);
    const auto rank = [&](std::size_t image) {
      return std::pair(images[image].size(), images[image]);
    };
    if (!is_first && rank(i) < rank(best->second)) best->second = i;
  }
  for (const auto& [file, image] : photographs) match.images[image] = files_[file].label;
  for (std::size_t file = 0; file < files_.size(); ++file)
    if (!is_owned[file] && !is_used[file] && !photographs.contains(file))
      match.spare.push_back(files_[file].name);
  return match;
}

}  // namespace kiln
