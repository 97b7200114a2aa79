#include "data/dataset/found_labels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/folder_entries.h"

namespace kiln {
namespace {

bool is_shorter(std::string_view a, std::string_view b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string shown(std::string_view name) {
  return quoted_beginning(name);
}

constexpr std::size_t kMaxNamed = 10;

[[noreturn]] void fail_labels(const FoundLabels& found, const std::string& text) {
  throw Error(ErrorCode::kInvalidDataset, found.where + ": " + text);
}

// What the written labels of a part look like; nullptr: there is none of the kind.
struct Written {
  FoundLabels* found = nullptr;
  const std::string* name = nullptr;    // can only be a name
  const std::string* number = nullptr;  // can only be a number
  const std::string* either = nullptr;  // a given name that looks like a number

  // Of labels that are read as names: one that as a number, from 0 or from 1 on, would be another
  // class; nullptr: there is none, or no number can be meant.
  const std::string* number_of_another() const {
    if (either == nullptr || found->reads_numbers) return nullptr;
    std::map<std::string_view, std::int64_t> ids;
    for (const std::string& given : found->names) ids.emplace(given, std::ssize(ids));
    const std::string* other = nullptr;
    for (const std::int64_t first : {0, 1}) {
      const std::string* differs = nullptr;
      bool is_possible = true;
      for (const RawLabel& label : found->labels) {
        const std::int64_t id = label.is_written ? class_number(label.text) - first : -1;
        is_possible = is_possible && id >= 0 && id < std::ssize(ids);
        if (is_possible && ids.at(label.text) != id) differs = &label.text;
      }
      if (is_possible && differs == nullptr) return nullptr;
      if (is_possible) other = differs;
    }
    return other;
  }
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
                           excerpt(*written.name) + "') of classes. " +
                           (written.name->find_first_not_of("0123456789") == std::string::npos
                                ? "Numbers have up to five digits, and longer ones are names: "
                                  "write a letter before each."
                                : "Write the names, or the numbers, in all of them."));
  return written;
}

void require_one_spelling(const std::vector<FoundLabels*>& parts) {
  std::map<std::int64_t, std::string_view> spellings;
  for (const FoundLabels* found : parts) {
    for (const RawLabel& label : found->labels) {
      if (!found->reads_numbers || !label.is_written) continue;
      const auto [other, is_new] = spellings.emplace(class_number(label.text), label.text);
      if (other->second != label.text)
        fail_labels(*found, "labels are '" + std::string(other->second) + "' and '" + label.text +
                                "'. Write each number in one way.");
    }
  }
}

// FoundLabels as the decision looks at them. They must outlive it.
struct LabelPart {
  explicit LabelPart(const FoundLabels* of)
      : found(*of), labels(of->labels), is_listed(!of->named_by.empty()) {
    for (std::size_t i = 0; i < found.names.size(); ++i)
      lines.emplace(found.names[i], static_cast<int>(i));
    for (RawLabel& label : labels) {
      if (std::exchange(label.is_written, false) && found.reads_numbers) {
        label.number = class_number(label.text);
        // Without given names, a spelling such as 01 is the name of its class.
        if (is_listed || label.text == std::to_string(label.number)) label.text.clear();
      }
      is_numbered = is_numbered || !lines.contains(label.text);
      if (label.number < 0) continue;
      lowest = has_numbers ? std::min(lowest, label.number) : label.number;
      highest = std::max(highest, label.number);
      has_numbers = true;
    }
    is_numbered = is_numbered && has_numbers;
    for (const RawLabel& label : labels)
      if (is_numbered && label.number >= 0 && !label.text.empty())
        numbers.emplace(label.text, label.number);
  }

  std::string range() const {
    return lowest == highest ? std::to_string(lowest)
                             : std::to_string(lowest) + " to " + std::to_string(highest);
  }
  // The line of a given name; -1: it is none of them.
  int line(const std::string& name) const {
    const auto line = lines.find(name);
    return line == lines.end() ? -1 : line->second;
  }
  // The number of a label, or of its name; -1: unknown.
  std::int64_t number(const RawLabel& label) const {
    if (label.number >= 0) return label.number;
    const auto named = numbers.find(label.text);
    return named == numbers.end() ? -1 : named->second;
  }

  // Whether the numbers can count from `first`. Numbers with a given name must be its line.
  bool suits(int first) const { return misfit(first) == nullptr; }
  // A label that does not suit; nullptr: all do.
  const RawLabel* misfit(int first) const {
    const auto place = std::ranges::find_if(labels, [&](const RawLabel& label) {
      const std::int64_t id = label.number - first;
      if (label.number < 0) return false;
      if (id < 0) return true;
      if (!is_listed) return false;
      const int own = line(label.text);
      return id >= std::ssize(found.names) || (own >= 0 && own != id);
    });
    return place == labels.end() ? nullptr : &*place;
  }

  const FoundLabels& found;
  std::vector<RawLabel> labels;  // as they are read: none is_written
  bool is_listed = false;
  bool has_numbers = false;
  bool is_numbered = false;  // the numbers say which class a label is, and not the names
  std::int64_t lowest = -1, highest = -1;
  std::unordered_map<std::string_view, int> lines;
  std::unordered_map<std::string_view, std::int64_t> numbers;
};

std::string has_names(const LabelPart& part) {
  return part.found.named_by + " has " + std::to_string(part.found.names.size()) + " classes";
}

[[noreturn]] void refuse_number(const LabelPart& part, int first) {
  const RawLabel& label = *part.misfit(first);
  const std::string number = std::to_string(label.number);
  if (label.number < first)
    fail_labels(part.found,
                "an image has label 0, but --first-label is 1. Give 0, or leave it out.");
  if (const int line = part.line(label.text); line >= 0)
    fail_labels(part.found, "the label " + number + " has the name '" + excerpt(label.text) +
                                "', which is line " + std::to_string(line + 1) + " of " +
                                part.found.named_by +
                                ". Other labels are numbers alone, so "
                                "both must agree: correct the order of the lines.");
  fail_labels(part.found, "an image has label " + number + ", but " + has_names(part) +
                              ". Add a line for each class.");
}

// Decides the number of the first class.
class FirstLabel {
 public:
  FirstLabel(const LabelParts& train, const LabelParts& valid)
      : parts_(train.begin(), train.end()), num_train_(train.size()) {
    for (const FoundLabels* found : valid) parts_.emplace_back(found);
  }

  std::optional<int> find(std::optional<int> given, std::string& note) const {
    const bool are_numbers = any(&LabelPart::is_numbered);
    for (const LabelPart& part : parts_)
      if (are_numbers && given && !part.suits(*given)) refuse_number(part, *given);
    if (given) return any(&LabelPart::has_numbers) ? given : std::nullopt;
    if (!are_numbers) return told_by_names();
    return any(&LabelPart::is_listed) ? listed(note) : unlisted();
  }

 private:
  bool any(bool LabelPart::*flag) const { return std::ranges::any_of(parts_, flag); }

  bool suits_all(int first) const {
    return std::ranges::all_of(parts_, [&](const LabelPart& part) { return part.suits(first); });
  }

  // For numbers that may follow in a stream.
  std::optional<int> told_by_names() const {
    if (!any(&LabelPart::has_numbers) || suits_all(0) == suits_all(1)) return {};
    return suits_all(1) ? 1 : 0;
  }

  // Where classes are given, their count tells where numbers begin.
  int listed(std::string& note) const {
    if (!suits_all(0) && !suits_all(1)) refuse_conflict();
    if (suits_all(0) != suits_all(1)) {
      if (suits_all(0)) note = note_of_spare_names();
      return suits_all(1) ? 1 : 0;
    }
    note = "the labels are " + range_of(&LabelPart::is_numbered) + ", and " +
           has_names(*std::ranges::find_if(parts_, &LabelPart::is_listed)) +
           ": label 0 is assumed to be the first. Give --first-label 1 if it is label 1";
    return 0;
  }

  // A line too many, such as a header, moves all names behind it: the last ones have no image then.
  std::string note_of_spare_names() const {
    std::int64_t highest = -1;
    for (const LabelPart& part : parts_)
      if (part.is_numbered) highest = std::max(highest, part.highest);
    const auto place = std::ranges::find_if(
        parts_, [](const LabelPart& part) { return part.is_listed && part.is_numbered; });
    if (place == parts_.end()) return {};
    const LabelPart& listed = *place;
    const std::int64_t spare = std::ssize(listed.found.names) - 1 - highest;
    if (spare <= 0) return {};
    return "the labels are " + range_of(&LabelPart::is_numbered) + ", but " + has_names(listed) +
           ": no image has the last " + (spare == 1 ? "" : std::to_string(spare) + " ") +
           "of them, '" + excerpt(listed.found.names.back()) + "'. Label 0 is the first line, '" +
           excerpt(listed.found.names.front()) +
           "', so the file must have names alone, and no header";
  }

  [[noreturn]] void refuse_conflict() const {
    for (const LabelPart& part : parts_)
      if (!part.suits(0) && !part.suits(1)) refuse_number(part, 0);
    const auto only = [&](int first) -> const LabelPart& {
      return *std::ranges::find_if(parts_, [&](const LabelPart& part) {
        return part.suits(first) && !part.suits(1 - first);
      });
    };
    const LabelPart &zero = only(0), &one = only(1);
    fail_labels(zero.found, "its labels, " + zero.range() + ", count from 0, but those of " +
                                one.found.where + ", " + one.range() + ", count from 1, since " +
                                has_names(one.is_listed ? one : zero) +
                                ". Write the same numbers in both.");
  }

  // Without given names, numbers are the names, and the training set tells which are classes.
  int unlisted() const {
    const std::span train(parts_.data(), num_train_);
    const bool train_leads = std::ranges::any_of(train, &LabelPart::is_numbered);
    const auto is_leader = [&](const LabelPart& part) {
      return part.is_numbered && (!train_leads || &part < train.data() + train.size());
    };
    for (const LabelPart& part : parts_)
      if (is_leader(part) && !part.suits(1)) return 0;
    const LabelPart& leader = *std::ranges::find_if(parts_, is_leader);
    for (const LabelPart& part : parts_)
      if (part.is_numbered && !part.suits(1))
        fail_labels(part.found, "its labels are " + part.range() + ", but those of " +
                                    leader.found.where + " are " + range_of(is_leader) +
                                    ". Give --first-label 0 if label 0 is a class, or correct the "
                                    "labels.");
    return 1;
  }

  template <typename Test>
  std::string range_of(Test&& test) const {
    std::int64_t lowest = INT64_MAX, highest = -1;
    for (const LabelPart& part : parts_) {
      if (!std::invoke(test, part)) continue;
      lowest = std::min(lowest, part.lowest);
      highest = std::max(highest, part.highest);
    }
    return std::to_string(lowest) + " to " + std::to_string(highest);
  }

  std::vector<LabelPart> parts_;  // those of the training set first
  std::size_t num_train_;
};

// Gives ids to the labels of one dataset.
class Classes {
 public:
  Classes(const LabelParts& parts, std::optional<int> first)
      : parts_(parts.begin(), parts.end()), first_(first.value_or(0)) {
    meaning_.first_label = first;
  }

  LabelMeaning decide() && {
    for (const LabelPart& part : parts_) require_given_names(part);
    if (const std::vector<std::string>* list = common_list())
      by_list(*list);
    else if (std::ranges::all_of(parts_, [](const LabelPart& part) {
               return part.is_numbered && part.found.names.empty();
             }))
      by_number();
    else
      by_name();
    return std::move(meaning_);
  }

 private:
  static std::size_t index_of(const LabelPart& part, const RawLabel& label) {
    return static_cast<std::size_t>(&label - part.labels.data());
  }
  static const std::string& place_of(const LabelPart& part, const RawLabel& label) {
    const FoundLabels& found = part.found;
    return found.places.empty() ? found.where : found.places[index_of(part, label)];
  }

  template <typename IdOf>
  void set_ids(IdOf&& id_of) {
    for (const LabelPart& part : parts_) {
      std::vector<int>& ids = meaning_.ids.emplace_back();
      for (const RawLabel& label : part.labels) ids.push_back(id_of(part, label));
    }
  }

  // Throws if names of a part are not among those given for it.
  static void require_given_names(const LabelPart& part) {
    if (!part.is_listed) return;
    std::vector<std::string> lacking;
    for (const RawLabel& label : part.labels)
      if ((!part.is_numbered || label.number < 0) && part.line(label.text) < 0)
        lacking.push_back(label.text);
    if (lacking.empty()) return;
    fail_labels(part.found, std::to_string(lacking.size()) +
                                (lacking.size() == 1 ? " class is" : " classes are") + " not in " +
                                part.found.named_by + ": " +
                                quoted_among(lacking, part.found.names, kMaxNamed) +
                                ". Add a line for each, or remove the images. It has " +
                                quoted_names(part.found.names, kMaxNamed) + ".");
  }

  // The list that all parts have, or that names all labels of those without one; or nullptr.
  const std::vector<std::string>* common_list() const {
    const LabelPart* listed = nullptr;
    for (const LabelPart& part : parts_) {
      if (part.found.names.empty()) continue;
      if (listed == nullptr) listed = &part;
      if (part.found.names == listed->found.names) continue;
      if (part.found.named_by.starts_with("--classes"))
        fail_labels(part.found, part.found.named_by + " has other names than for " +
                                    listed->found.where + ". Give every rank the same file.");
      return nullptr;
    }
    for (const LabelPart& part : parts_)
      for (const RawLabel& label : part.labels)
        if (listed != nullptr && part.found.names.empty() &&
            (part.is_numbered || listed->line(label.text) < 0))
          return nullptr;
    return listed == nullptr ? nullptr : &listed->found.names;
  }

  void by_list(const std::vector<std::string>& list) {
    meaning_.classes = list;
    const LabelPart& listed = *std::ranges::find_if(
        parts_, [](const LabelPart& part) { return !part.found.names.empty(); });
    set_ids([&](const LabelPart& part, const RawLabel& label) {
      if (part.is_numbered && label.number >= 0) return static_cast<int>(label.number - first_);
      const FoundLabels& found = part.found;
      if (!found.ids.empty()) {  // of two unused ids with one name, the known one
        const auto known = static_cast<std::size_t>(found.ids[index_of(part, label)]);
        if (known < list.size() && list[known] == label.text) return static_cast<int>(known);
      }
      return listed.line(label.text);
    });
  }

  void by_number() {
    const std::map<std::int64_t, std::string> texts = names_of_numbers();
    std::set<std::int64_t> used;
    std::int64_t highest = 0;
    for (const LabelPart& part : parts_) {
      highest = std::max(highest, part.highest);
      for (const RawLabel& label : part.labels) used.insert(label.number);
    }
    used.erase(-1);
    for (std::int64_t number = first_; number <= highest; ++number) {
      const auto text = texts.find(number);
      meaning_.classes.push_back(text == texts.end() ? std::to_string(number) : text->second);
    }
    require_distinct_classes();
    set_ids([&](const LabelPart& part, const RawLabel& label) {
      std::int64_t number = part.number(label);
      for (const auto& [other, text] : texts)
        if (number < 0 && text == label.text) number = other;
      if (number < 0) refuse_mixed(part, label, parts_);
      return static_cast<int>(number - first_);
    });
    const bool are_named = std::ranges::any_of(
        texts, [](const auto& entry) { return !is_class_number(entry.second); });
    if (are_named || (first_ == 0 && used.size() == meaning_.classes.size())) return;
    meaning_.note = "the labels are numbers without names, " + std::to_string(*used.begin()) +
                    " to " + std::to_string(highest) + ", of which " + std::to_string(used.size()) +
                    (used.size() == 1 ? " is" : " are") + " used: classes are named by them, and " +
                    (first_ == 0 ? "those between that no image has are classes, too"
                                 : "their ids are one lower, since label 1 is the first") +
                    ". Give --classes FILE for names, or --first-label 0 to keep the numbers";
  }

  // Throws if a number has two names, or a name two numbers.
  std::map<std::int64_t, std::string> names_of_numbers() const {
    struct Named {
      const LabelPart& part;
      const RawLabel& label;
    };
    std::map<std::int64_t, Named> by_number;
    std::map<std::string_view, Named> by_text;
    std::map<std::int64_t, std::string> texts;
    for (const LabelPart& part : parts_)
      for (const RawLabel& label : part.labels) {
        if (label.number < 0 || label.text.empty()) continue;
        const Named& numbered =
            by_number.try_emplace(label.number, Named{part, label}).first->second;
        const Named& named = by_text.try_emplace(label.text, Named{part, label}).first->second;
        for (const Named& other : {numbered, named})
          if (other.label != label)
            fail_labels(part.found,
                        "there are different classes: number " +
                            std::to_string(other.label.number) + " is '" +
                            excerpt(other.label.text) + "' in " +
                            place_of(other.part, other.label) + ", but number " +
                            std::to_string(label.number) + " is '" + excerpt(label.text) + "' in " +
                            place_of(part, label) +
                            ". Give --classes FILE with a name for each number, or separate "
                            "the datasets.");
        texts.emplace(label.number, label.text);
      }
    return texts;
  }

  // A number without a name must not have the name of another.
  void require_distinct_classes() const {
    std::set<std::string_view> seen;
    for (const std::string& name : meaning_.classes)
      if (!seen.insert(name).second)
        fail_labels(parts_.front().found, "the name '" + excerpt(name) +
                                              "' belongs to one number, and another number "
                                              "without a name is " +
                                              excerpt(name) +
                                              ". Give --classes FILE with a name for each number.");
  }

  // `numbered` are parts among which one has numbers without names.
  [[noreturn]] void refuse_mixed(const LabelPart& part, const RawLabel& name,
                                 std::span<const LabelPart> numbered) const {
    for (const LabelPart& other : numbered)
      for (const RawLabel& label : other.labels)
        if (label.number >= 0)
          fail_labels(part.found,
                      "the class '" + excerpt(name_of(part, name)) + "' in " +
                          place_of(part, name) + " is a name, but the label " +
                          std::to_string(label.number) + " in " + place_of(other, label) +
                          " is a number. Write the names, or the numbers, in all of them, "
                          "or give --classes FILE with a name for each number.");
    throw InternalError("names without numbers cannot be mixed");
  }

  std::string name_of(const LabelPart& part, const RawLabel& label) const {
    if (!part.is_numbered) return label.text;
    const std::int64_t number = part.number(label);
    if (part.is_listed && label.number >= 0)
      return part.found.names[static_cast<std::size_t>(number - first_)];
    return label.text.empty() ? std::to_string(number) : label.text;
  }

  // Names and lists are joined, sorted.
  void by_name() {
    const LabelPart* numbered = nullptr;
    std::set<std::string> names;
    for (const LabelPart& part : parts_) {
      names.insert(part.found.names.begin(), part.found.names.end());
      for (const RawLabel& label : part.labels) {
        names.insert(name_of(part, label));
        if (part.is_numbered && !part.is_listed && label.text.empty()) numbered = &part;
      }
    }
    for (const LabelPart& part : parts_)
      for (const RawLabel& label : part.labels)
        if (numbered != nullptr && !is_class_number(name_of(part, label)))
          refuse_mixed(part, label, {numbered, 1});
    meaning_.classes.assign(names.begin(), names.end());
    std::unordered_map<std::string_view, int> ids;
    for (const std::string& name : meaning_.classes)
      ids.emplace(name, static_cast<int>(ids.size()));
    set_ids(
        [&](const LabelPart& part, const RawLabel& label) { return ids.at(name_of(part, label)); });
    if (std::ranges::any_of(parts_, &LabelPart::is_listed))
      meaning_.note =
          "the ranks' lists of classes differ: class ids follow the sorted names. Give --classes "
          "FILE for another order";
  }

  std::vector<LabelPart> parts_;
  const std::int64_t first_;
  LabelMeaning meaning_;
};

}  // namespace

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
  const char* fault = text.empty()                       ? "is empty"
                      : text.size() > kMaxLabelBytes     ? "has more than 256 bytes"
                      : text.find('\n') != text.npos     ? "has more than one line"
                      : is_utf8(text) && !is_clean(text) ? "has control characters"
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

void take_texts(const std::vector<std::string>& texts, FoundLabels& found) {
  for (const std::string& text : texts) {
    if (!is_utf8(text))
      fail_labels(found,
                  "the class '" + text.substr(0, 200) + "' of an image is not UTF-8. Rename it.");
    found.labels.push_back({.text = text, .is_written = true});
  }
}

std::string decide_readings(const std::vector<FoundLabels*>& parts) {
  std::vector<Written> all;
  const FoundLabels* numbered = nullptr;
  for (FoundLabels* found : parts) {
    all.push_back(written_in(*found));
    if (all.back().number != nullptr ||
        std::ranges::any_of(found->labels, [](const RawLabel& label) {
          return label.number >= 0 && label.text.empty();
        }))
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
  if (both != nullptr)
    return "the labels are read as numbers, since not all of them are names of classes, though '" +
           *both + "' is one";
  for (const Written& written : all)
    if (const std::string* other = written.number_of_another(); other != nullptr)
      return "the labels are read as names of classes, since all of them are, though '" + *other +
             "' is the number of another class";
  return {};
}

std::optional<int> find_first_label(const LabelParts& train, const LabelParts& valid,
                                    std::optional<int> given, std::string& note) {
  return FirstLabel(train, valid).find(given, note);
}

LabelMeaning meaning_of(const LabelParts& parts, std::optional<int> first_label) {
  return Classes(parts, first_label).decide();
}

}  // namespace kiln
