#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/names.h"
#include "base/text.h"
#include "data/dataset/listing.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const FoundLabels& part, const std::string& text) {
  throw Error(ErrorCode::kInvalidDataset, part.where + ": " + text);
}

bool has_given_names(const FoundLabels* part) {
  return !part->named_by.empty();
}

// Given names, which must outlive it, and the lines that they are in.
class Lines {
 public:
  explicit Lines(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) lines_.emplace(names[i], static_cast<int>(i));
  }
  // -1: it is none of them.
  int of(const std::string& name) const {
    const auto line = lines_.find(name);
    return line == lines_.end() ? -1 : line->second;
  }
  // The line of a label by its own name, or else by its text.
  int of(const RawLabel& label) const {
    const int line = of(label.name);
    return line >= 0 || label.text.empty() || label.is_number ? line : of(label.text);
  }

 private:
  std::unordered_map<std::string_view, int> lines_;
};

// A label of each look among those of a part; nullptr: there is none. Without given names, those
// that the data name themselves are neither.
struct Looks {
  explicit Looks(const FoundLabels& part) {
    const bool has_names = has_given_names(&part);
    const Lines lines(part.names);
    for (const RawLabel& label : part.labels) {
      if (part.are_names || (!has_names && !label.name.empty())) continue;
      const RawLabel*& place = !is_class_number(label.text)        ? word
                               : has_names && lines.of(label) >= 0 ? given
                                                                   : number;
      if (place == nullptr) place = &label;
    }
  }
  const RawLabel* word = nullptr;
  const RawLabel* number = nullptr;
  const RawLabel* given = nullptr;  // a number that is the name of a class, or has such a name
};

std::string text_of_lacking(const std::vector<std::string>& lacking,
                            const std::vector<std::string>& known, const std::string& where,
                            const std::string& remedy) {
  std::vector<std::string> shown = lacking;
  for (std::size_t i = 0; i < std::min(shown.size(), kMostNamed); ++i) {
    shown[i] = quoted_among(lacking[i], known);
    if (shown[i] != "'" + printable(lacking[i]) + "'") continue;  // it names one that looks alike
    if (const std::string near = closest(lacking[i], known); !near.empty())
      shown[i] += " (similar: '" + near + "')";
  }
  return plural(std::ssize(lacking), "class is", "classes are") + " not in " + where + ": " +
         few_of(std::move(shown), kMostNamed) + ". " + remedy + " It has " +
         quoted_names(known, kMostNamed) + ".";
}

// A label of a part.
struct PartLabel {
  const FoundLabels* part = nullptr;
  const RawLabel* label = nullptr;
  // " in " and where it was found.
  std::string place() const {
    const auto at = static_cast<std::size_t>(label - part->labels.data());
    return " in " + (part->places.empty() ? part->where : part->places[at]);
  }
};

[[noreturn]] void refuse_mixed(const PartLabel& word, const PartLabel& number) {
  const std::string& name = word.label->text.empty() ? word.label->name : word.label->text;
  refuse(*word.part,
         "the label '" + excerpt(name) + "'" + word.place() + " is a name, but '" +
             number.label->text + "'" + number.place() +
             " is a number. Write the names, or the numbers (of up to five digits), in all "
             "of them, or give --classes FILE with a name for each number.");
}

void require_one_spelling(const LabelParts& parts) {
  std::map<std::int64_t, std::string_view> spellings;
  for (const FoundLabels* part : parts)
    for (const RawLabel& label : part->labels) {
      if (part->are_names || !is_class_number(label.text) ||
          (has_given_names(part) && !part->are_lines))
        continue;
      const auto [other, is_new] = spellings.emplace(class_number(label.text), label.text);
      if (other->second != label.text)
        refuse(*part, "labels are '" + std::string(other->second) + "' and '" + label.text +
                          "'. Write each number in one way.");
    }
}

std::string has_names(const FoundLabels& part) {
  return part.named_by + " has " + plural(std::ssize(part.names), "class", "classes");
}

// A label that does not fit if numbers count from `first`; nullptr: all do. A number with a given
// name must be its line.
const RawLabel* misfit(const FoundLabels& part, int first) {
  const Lines lines(part.names);
  const auto place = std::ranges::find_if(part.labels, [&](const RawLabel& label) {
    if (!is_class_number(label.text)) return false;
    const std::int64_t id = class_number(label.text) - first;
    const int own = lines.of(label.name);
    return id < 0 || id >= std::ssize(part.names) || (own >= 0 && own != id);
  });
  return place == part.labels.end() ? nullptr : &*place;
}

[[noreturn]] void refuse_number(const FoundLabels& part, const RawLabel& label) {
  if (const int line = Lines(part.names).of(label.name); line >= 0)
    refuse(part, "the label " + label.text + " has the name '" + excerpt(label.name) +
                     "', which is line " + std::to_string(line + 1) + " of " + part.named_by +
                     ". Other labels are numbers alone, so both must agree: correct the order of "
                     "the lines.");
  refuse(part, "an image has label " + label.text + ", but " + has_names(part) +
                   ". Add a line for each class, or say with --first-label whether the first line "
                   "has the number 0 or 1.");
}

std::string range_of(const FoundLabels& part) {
  std::set<std::int64_t> numbers;
  for (const RawLabel& label : part.labels)
    if (is_class_number(label.text)) numbers.insert(class_number(label.text));
  return std::to_string(*numbers.begin()) + " to " + std::to_string(*numbers.rbegin());
}

// The only first number that suits all parts, each of which has numbers of lines; 0 where both do
// and `is_part`.
int only_first_number(const LabelParts& parts, bool is_part) {
  const auto suits = [&](int first) {
    return std::ranges::all_of(parts, [&](auto* one) { return misfit(*one, first) == nullptr; });
  };
  const bool from_0 = suits(0), from_1 = suits(1);
  if (from_0 != from_1) return from_1 ? 1 : 0;
  if (from_0 && is_part) return 0;
  const FoundLabels& part = *parts.front();
  if (from_0)
    refuse(part, "the labels are " + range_of(part) + ", and " + has_names(part) +
                     ", so that the first line may have the number 0 or 1. Give --first-label 0 "
                     "or --first-label 1.");
  for (const FoundLabels* one : parts)
    if (const RawLabel* label = misfit(*one, 0); label != nullptr && misfit(*one, 1) != nullptr)
      refuse_number(*one, *label);
  const auto which = [&](int first) -> const FoundLabels& {
    return **std::ranges::find_if(parts, [&](auto* one) { return misfit(*one, first) == nullptr; });
  };
  refuse(which(0), "its labels, " + range_of(which(0)) + ", count from 0, but those of " +
                       which(1).where + ", " + range_of(which(1)) + ", count from 1, as " +
                       has_names(which(1)) + ". Write the same numbers in both.");
}

// Gives ids to the labels of one dataset.
class Classes {
 public:
  Classes(const LabelParts& parts, int first) : parts_(parts), first_(first) {}

  LabelMeaning decide() && {
    collect_own_names();
    for (const FoundLabels* part : parts_) {
      std::vector<std::string>& names = names_.emplace_back();
      require_given_names(*part);
      const Lines lines(part->names);
      for (const RawLabel& label : part->labels) names.push_back(name_of(*part, lines, label));
    }
    if (const std::vector<std::string>* list = common_list())
      meaning_.classes = *list;
    else
      order_names();
    const Lines ids(meaning_.classes);
    for (const std::vector<std::string>& names : names_)
      meaning_.ids.push_back(list_from(names, [&](auto& name) { return ids.of(name); }));
    report_spare_lines();
    return std::move(meaning_);
  }

 private:
  // The names that data without given ones have for their numbers, one for each.
  void collect_own_names() {
    std::map<std::string_view, PartLabel> by_number, by_name;
    for (const FoundLabels* part : parts_)
      for (const RawLabel& label : part->labels) {
        if (has_given_names(part) || label.name.empty() || !is_class_number(label.text)) continue;
        const PartLabel own{part, &label};
        for (const PartLabel& other : {by_number.emplace(label.text, own).first->second,
                                       by_name.emplace(label.name, own).first->second})
          if (*other.label != label)
            refuse(*part, "there are different classes: number " + other.label->text + " is '" +
                              excerpt(other.label->name) + "'" + other.place() + ", but number " +
                              label.text + " is '" + excerpt(label.name) + "'" + own.place() +
                              ". Give --classes FILE with a name for each number, or separate the "
                              "datasets.");
        own_names_.emplace(class_number(label.text), label.name);
      }
  }

  static void require_given_names(const FoundLabels& part) {
    if (!has_given_names(&part)) return;
    const Lines lines(part.names);
    std::vector<std::string> lacking;
    for (const RawLabel& label : part.labels)
      if (!(part.are_lines && is_class_number(label.text)) && lines.of(label) < 0)
        lacking.push_back(label.text.empty() ? label.name : label.text);
    if (lacking.empty()) return;
    refuse(part, text_of_lacking(lacking, part.names, part.named_by,
                                 "Add a line for each, or remove the images."));
  }

  std::string name_of(const FoundLabels& part, const Lines& lines, const RawLabel& label) const {
    if (part.are_names) return label.text;
    if (part.are_lines && is_class_number(label.text))
      return part.names[static_cast<std::size_t>(class_number(label.text) - first_)];
    if (has_given_names(&part)) return part.names[static_cast<std::size_t>(lines.of(label))];
    if (!label.name.empty()) return label.name;
    if (own_names_.empty()) return label.text;
    const auto own = own_names_.find(class_number(label.text));
    if (own == own_names_.end()) refuse_unnamed(part, label.text);
    return own->second;
  }

  [[noreturn]] void refuse_unnamed(const FoundLabels& part, const std::string& label) const {
    const auto& [number, name] = *own_names_.begin();
    refuse(part, "labels are numbers with names, such as " + std::to_string(number) + " '" +
                     excerpt(name) + "', but '" + excerpt(label) +
                     "' is alone. Give --classes FILE with a name for each number.");
  }

  // The list that all parts have, or that names all labels of those without one; or nullptr.
  const std::vector<std::string>* common_list() {
    const FoundLabels* listed = nullptr;
    for (const FoundLabels* part : parts_) {
      if (part->names.empty()) continue;
      if (listed == nullptr) listed = part;
      if (part->names == listed->names) continue;
      if (part->named_by.starts_with("--classes"))
        refuse(*part, part->named_by + " has other names than for " + listed->where +
                          ". Give every rank the same file.");
      if (has_given_names(part))
        meaning_.note =
            "the ranks' lists of classes differ: class ids follow the sorted names. Give --classes "
            "FILE for another order";
      return nullptr;
    }
    if (listed == nullptr) return nullptr;
    const Lines lines(listed->names);
    for (const std::vector<std::string>& names : names_)
      for (const std::string& name : names)
        if (lines.of(name) < 0) return nullptr;
    return &listed->names;
  }

  // By the data's own numbers, by value, or by code points.
  void order_names() {
    std::map<std::string_view, std::int64_t> numbers;
    for (const auto& [number, name] : own_names_) numbers.emplace(name, number);
    PartLabel word, number;
    std::set<std::string> all;
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const FoundLabels& part = *parts_[p];
      all.insert(part.names.begin(), part.names.end());
      for (std::size_t i = 0; i < names_[p].size(); ++i) {
        const std::string& name = *all.insert(names_[p][i]).first;
        if (!numbers.empty() && !numbers.contains(name)) refuse_unnamed(part, name);
        const bool is_free = !part.are_names && !has_given_names(&part);
        PartLabel& first = is_free && is_class_number(name) ? number : word;
        if (first.label == nullptr) first = {&part, &part.labels[i]};
      }
    }
    if (numbers.empty() && number.label != nullptr && word.label != nullptr)
      refuse_mixed(word, number);
    meaning_.classes.assign(all.begin(), all.end());
    const bool has_own_numbers = !numbers.empty() && numbers.size() == all.size();
    if (!has_own_numbers && word.label != nullptr) return;
    std::ranges::sort(meaning_.classes, {}, [&](const std::string& name) {
      return has_own_numbers ? numbers.at(name) : class_number(name);
    });
    const std::size_t count = meaning_.classes.size();
    if (has_own_numbers || count == 0 || meaning_.classes.back() == std::to_string(count - 1))
      return;
    meaning_.note = "the labels are numbers without names, " + meaning_.classes.front() + " to " +
                    meaning_.classes.back() + ", of which " + std::to_string(count) +
                    (count == 1 ? " is" : " are") +
                    " used: give --classes FILE for names and for other classes";
  }

  // A line too many, such as a header, moves all names behind it: the last ones have no image then.
  void report_spare_lines() {
    const auto part = std::ranges::find_if(parts_, [](auto* one) { return one->are_lines; });
    int highest = -1;
    for (const std::vector<int>& ids : meaning_.ids)
      for (const int id : ids) highest = std::max(highest, id);
    const auto spare = std::ssize(meaning_.classes) - 1 - highest;
    if (part == parts_.end() || first_ != 0 || spare <= 0) return;
    meaning_.note = "no image has the last " + (spare == 1 ? "" : std::to_string(spare) + " ") +
                    "of the classes in " + (*part)->named_by + ", '" +
                    excerpt(meaning_.classes.back()) + "'. Label 0 is the first line, '" +
                    excerpt(meaning_.classes.front()) +
                    "', so the file must have names alone, and no header";
  }

  const LabelParts& parts_;
  const int first_;
  std::map<std::int64_t, std::string> own_names_;
  std::vector<std::vector<std::string>> names_;  // of the labels of each part
  LabelMeaning meaning_;
};

}  // namespace

bool is_class_number(const std::string& text) {
  constexpr std::size_t kMaxDigits = 5;  // ids are below 100,000
  return !text.empty() && text.size() <= kMaxDigits &&
         std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::int64_t class_number(const std::string& text) {
  return is_class_number(text) ? std::stoll(text) : -1;
}

int LabelSets::label_of(std::vector<int> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto [known, is_new] = labels_.emplace(ids, static_cast<int>(sets_.size()));
  if (is_new) sets_.push_back(std::move(ids));
  return known->second;
}

std::optional<int> first_number(const LabelParts& parts, std::optional<int> given, bool is_part) {
  bool are_lines = false;
  std::vector<Looks> all_looks;
  for (const FoundLabels* part : parts) {
    const Looks& looks = all_looks.emplace_back(*part);
    if (looks.word != nullptr && looks.number != nullptr)
      refuse_mixed({part, looks.word}, {part, looks.number});
    are_lines = are_lines || (has_given_names(part) && looks.number != nullptr);
  }
  LabelParts numbered;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    FoundLabels* const part = parts[p];
    const Looks& looks = all_looks[p];
    part->are_lines =
        are_lines && has_given_names(part) && (looks.number != nullptr || looks.given != nullptr);
    if (!part->are_lines) continue;
    if (looks.word != nullptr)
      refuse(*part, "the label '" + looks.given->text +
                        "' is the name of a class and may be a number: labels beside it are names, "
                        "but others are numbers. Write the names, or the numbers, in all of them.");
    numbered.push_back(part);
  }
  require_one_spelling(parts);
  if (numbered.empty()) return {};
  for (const FoundLabels* part : numbered)
    if (const RawLabel* label = given ? misfit(*part, *given) : nullptr; label != nullptr)
      refuse_number(*part, *label);
  return given ? *given : only_first_number(numbered, is_part);
}

LabelMeaning meaning_of(const LabelParts& parts, int first) {
  return Classes(parts, first).decide();
}

namespace {

// Gives the classes new ids, by their old ones; below 0 are those that no image has.
void renumber(const std::vector<int>& new_ids, Dataset& set) {
  for (std::vector<int>& ids : set.labels.sets) {
    for (int& id : ids) id = new_ids[static_cast<std::size_t>(id)];
    std::erase_if(ids, [](int id) { return id < 0; });
    std::ranges::sort(ids);
  }
  for (std::size_t i = 0; set.labels.sets.empty() && i < set.samples.size(); ++i)
    if (const int label = set.samples.label(i); label >= 0)
      set.samples.set_label(i, new_ids[static_cast<std::size_t>(label)]);
}

// Gives the samples of `set` their classes. `found` are its labels, `part` its place in `meaning`.
void apply(const LabelMeaning& meaning, std::size_t part, std::optional<int> first,
           FoundLabels found, Dataset& set) {
  const std::vector<int>& ids = meaning.ids[part];
  std::vector<int> new_ids(std::max(set.classes.size(), ids.size()), -1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    new_ids[found.ids.empty() ? i : static_cast<std::size_t>(found.ids[i])] = ids[i];
  renumber(new_ids, set);
  if (set.classes != meaning.classes) set.schema_json = schema_text(meaning.classes);
  set.classes = meaning.classes;
  const bool are_numbers =
      std::ranges::any_of(found.labels, [](auto& label) { return is_class_number(label.text); });
  set.first_label = found.are_lines || (are_numbers && !has_given_names(&found) && !found.are_names)
                        ? std::optional(first.value_or(0))
                        : std::nullopt;
  std::erase(set.notes, set.found.note);
  found.ids = ids;
  found.note = meaning.note;
  set.add_note(found.note);
  set.found = std::move(found);
}

}  // namespace

FoundLabels found_labels(const Dataset& set) {
  FoundLabels found = set.found;
  found.where = set.name + " '" + set.root.string() + "'";
  if (!found.labels.empty()) return found;
  const std::vector<long long> counts = counts_by_class(set, set.classes.size());
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] == 0) continue;
    found.labels.push_back({.text = set.classes[id]});
    found.ids.push_back(static_cast<int>(id));
  }
  found.names = set.classes;
  found.are_names = true;
  return found;
}

void decide_labels(const DatasetContext& context, Dataset& set) {
  const bool are_names = set.found.labels.empty();
  if (are_names && context.records.classes_file.empty()) return;
  FoundLabels found = found_labels(set);
  if (are_names) read_given_names(context, found);
  const std::optional<int> first =
      first_number({&found}, context.records.first_label, context.is_part);
  if (are_names && !set.labeled())
    set.found = std::move(found);
  else
    apply(meaning_of({&found}, first.value_or(0)), 0, first, found, set);
}

void decide_labels(Dataset& train, Dataset& valid, std::optional<int> first_label) {
  decide_labels({found_labels(train)}, {found_labels(valid)}, 0, first_label, train, valid);
}

void decide_labels(std::vector<FoundLabels> trains, std::vector<FoundLabels> valids,
                   std::size_t rank, std::optional<int> first_label, Dataset& train,
                   Dataset& valid) {
  LabelParts leaders, others, all;
  for (FoundLabels& found : trains)
    if (!train.is_stream()) all.push_back(leaders.emplace_back(&found));
  for (FoundLabels& found : valids) all.push_back(others.emplace_back(&found));
  const std::optional<int> first = first_number(all, first_label);
  if (train.is_stream()) {
    apply(meaning_of(others, first.value_or(0)), rank, first, valids[rank], valid);
    train.classes = valid.classes;
    train.schema_json = valid.schema_json;
    if (first) train.first_label = first;
    return;
  }
  apply(meaning_of(leaders, first.value_or(0)), rank, first, trains[rank], train);
  LabelMeaning own = meaning_of({&valids[rank]}, first.value_or(0));
  own.note.clear();
  apply(own, 0, first, valids[rank], valid);
  map_classes(train, valid);
}

void map_classes(const Dataset& train, Dataset& valid) {
  const Lines train_ids(train.classes);
  const std::vector<long long> counts = counts_by_class(valid, valid.classes.size());
  std::vector<int> new_ids;
  std::vector<std::string> lacking;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    new_ids.push_back(train_ids.of(valid.classes[id]));
    if (counts[id] > 0 && new_ids[id] < 0) lacking.push_back(valid.classes[id]);
  }
  if (!lacking.empty())
    valid.fail(text_of_lacking(lacking, train.classes,
                               "the training dataset '" + train.root.string() + "'",
                               "Add them to the training data, or remove them here."));
  renumber(new_ids, valid);
  valid.classes = train.classes;
  valid.found = {};
}

void read_given_names(const DatasetContext& context, FoundLabels& found) {
  found.where = context.name + " '" + context.root.string() + "'";
  const fs::path given = context.records.classes_file;
  const fs::path file = given.empty() ? path_beside(context, kClassesName) : given;
  if (given.empty() && !fs::exists(file)) return;
  found.named_by = given.empty() ? kClassesName : "--classes " + quoted_path(given);
  found.names = read_class_lines(file, found.named_by, context);
}

void require_task(const RecordOptions& records, Dataset& set) {
  if (records.task != TaskKind::kMultiLabel) return;
  for (const std::string& name : set.classes)
    if (name.find(kLabelSeparator) != name.npos)
      set.fail("the name of its class '" + name +
               "' has a ';', which is between the labels of an image with --task multi-label. "
               "Rename the class.");
  if (!set.labels.sets.empty()) return;
  for (int id = 0; id < std::ssize(set.classes); ++id) set.labels.sets.push_back({id});
}

}  // namespace kiln
