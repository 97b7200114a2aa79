#include "data/dataset/label_meaning.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/dataset.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxNamed = 10;

std::vector<LabelPart> looked_at(const LabelParts& sets) {
  std::vector<LabelPart> parts;
  for (const FoundLabels* found : sets) parts.emplace_back(*found);
  return parts;
}

std::string has_names(const LabelPart& part) {
  return part.found().named_by + " has " + std::to_string(part.found().names.size()) + " classes";
}

[[noreturn]] void refuse_number(const LabelPart& part, int first) {
  const RawLabel& label = *part.misfit(first);
  const std::string number = std::to_string(label.number);
  if (label.number < first)
    fail_labels(part.found(),
                "an image has label 0, but --first-label is 1. Give 0, or leave it out.");
  if (const int line = part.line(label.text); line >= 0)
    fail_labels(part.found(), "the label " + number + " has the name '" + excerpt(label.text) +
                                  "', which is line " + std::to_string(line + 1) + " of " +
                                  part.found().named_by +
                                  ". Other labels are numbers alone, so "
                                  "both must agree: correct the order of the lines.");
  fail_labels(part.found(), "an image has label " + number + ", but " + has_names(part) +
                                ". Add a line for each class.");
}

// Decides the number of the first class.
class FirstLabel {
 public:
  FirstLabel(const LabelParts& train, const LabelParts& valid) {
    num_train_ = train.size();
    LabelParts both = train;
    both.insert(both.end(), valid.begin(), valid.end());
    parts_ = looked_at(both);
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
  bool any(bool (LabelPart::*test)() const) const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const LabelPart& part) { return (part.*test)(); });
  }

  bool suits_all(int first) const {
    return std::all_of(parts_.begin(), parts_.end(),
                       [&](const LabelPart& part) { return part.suits(first); });
  }

  // For numbers that may follow in a stream.
  std::optional<int> told_by_names() const {
    if (!any(&LabelPart::has_numbers) || suits_all(0) == suits_all(1)) return {};
    return suits_all(1) ? 1 : 0;
  }

  // Where classes are given, their count tells where numbers begin.
  int listed(std::string& note) const {
    if (!suits_all(0) && !suits_all(1)) refuse_conflict();
    if (suits_all(0) != suits_all(1)) return suits_all(1) ? 1 : 0;
    const LabelPart& listed = *std::find_if(parts_.begin(), parts_.end(),
                                            [](const LabelPart& part) { return part.is_listed(); });
    note = "the labels are " + range_of([](const LabelPart& part) { return part.is_numbered(); }) +
           ", and " + has_names(listed) +
           ": label 0 is assumed to be the first. Give --first-label 1 if it is label 1";
    return 0;
  }

  [[noreturn]] void refuse_conflict() const {
    for (const LabelPart& part : parts_)
      if (!part.suits(0) && !part.suits(1)) refuse_number(part, 0);
    const auto only = [&](int first) -> const LabelPart& {
      return *std::find_if(parts_.begin(), parts_.end(), [&](const LabelPart& part) {
        return part.suits(first) && !part.suits(1 - first);
      });
    };
    const LabelPart &zero = only(0), &one = only(1);
    fail_labels(zero.found(),
                "its labels, " + zero.range() + ", count from 0, but those of " +
                    one.found().where + ", " + one.range() + ", count from 1, since " +
                    has_names(one.is_listed() ? one : zero) + ". Write the same numbers in both.");
  }

  // Without given names, numbers are the names, and the training set tells which are classes.
  int unlisted() const {
    const auto is_leader = [&](const LabelPart& part) {
      return part.is_numbered() && (!has_numbered_train() || is_train(part));
    };
    for (const LabelPart& part : parts_)
      if (is_leader(part) && !part.suits(1)) return 0;
    const LabelPart& leader = *std::find_if(parts_.begin(), parts_.end(), is_leader);
    for (const LabelPart& part : parts_)
      if (part.is_numbered() && !part.suits(1))
        fail_labels(part.found(),
                    "its labels are " + part.range() + ", but those of " + leader.found().where +
                        " are " + range_of(is_leader) +
                        ". Give --first-label 0 if label 0 is a class, or correct the "
                        "labels.");
    return 1;
  }

  template <typename Test>
  std::string range_of(Test&& test) const {
    std::int64_t lowest = INT64_MAX, highest = -1;
    for (const LabelPart& part : parts_) {
      if (!test(part)) continue;
      lowest = std::min(lowest, part.lowest());
      highest = std::max(highest, part.highest());
    }
    return std::to_string(lowest) + " to " + std::to_string(highest);
  }

  bool is_train(const LabelPart& part) const {
    return static_cast<std::size_t>(&part - parts_.data()) < num_train_;
  }
  bool has_numbered_train() const {
    return std::any_of(parts_.begin(), parts_.end(),
                       [&](const LabelPart& part) { return is_train(part) && part.is_numbered(); });
  }

  std::vector<LabelPart> parts_;
  std::size_t num_train_ = 0;
};

// Gives ids to the labels of one dataset.
class Classes {
 public:
  Classes(const LabelParts& parts, std::optional<int> first)
      : parts_(looked_at(parts)), first_(first.value_or(0)) {
    meaning_.first_label = first;
  }

  LabelMeaning decide() && {
    for (const LabelPart& part : parts_) require_given_names(part);
    if (const std::vector<std::string>* list = common_list())
      by_list(*list);
    else if (std::all_of(parts_.begin(), parts_.end(), [](const LabelPart& part) {
               return part.is_numbered() && part.found().names.empty();
             }))
      by_number();
    else
      by_name();
    return std::move(meaning_);
  }

 private:
  static std::size_t index_of(const LabelPart& part, const RawLabel& label) {
    return static_cast<std::size_t>(&label - part.labels().data());
  }
  static const std::string& place_of(const LabelPart& part, const RawLabel& label) {
    const FoundLabels& found = part.found();
    return found.places.empty() ? found.where : found.places[index_of(part, label)];
  }

  template <typename IdOf>
  void set_ids(IdOf&& id_of) {
    for (const LabelPart& part : parts_) {
      std::vector<int>& ids = meaning_.ids.emplace_back();
      for (const RawLabel& label : part.labels()) ids.push_back(id_of(part, label));
    }
  }

  // Throws if names of a part are not among those given for it.
  static void require_given_names(const LabelPart& part) {
    if (!part.is_listed()) return;
    std::vector<std::string> lacking;
    for (const RawLabel& label : part.labels())
      if ((!part.is_numbered() || label.number < 0) && part.line(label.text) < 0)
        lacking.push_back(label.text);
    if (lacking.empty()) return;
    fail_labels(part.found(), std::to_string(lacking.size()) +
                                  (lacking.size() == 1 ? " class is" : " classes are") +
                                  " not in " + part.found().named_by + ": " +
                                  quoted_among(lacking, part.found().names, kMaxNamed) +
                                  ". Add a line for each, or remove the images. It has " +
                                  quoted_names(part.found().names, kMaxNamed) + ".");
  }

  // The list of classes that all parts have, or that names all labels of those without one.
  // nullptr: there is none.
  const std::vector<std::string>* common_list() const {
    const LabelPart* listed = nullptr;
    for (const LabelPart& part : parts_) {
      if (part.found().names.empty()) continue;
      if (listed == nullptr) listed = &part;
      if (part.found().names == listed->found().names) continue;
      if (part.found().named_by.starts_with("--classes"))
        fail_labels(part.found(), part.found().named_by + " has other names than for " +
                                      listed->found().where + ". Give every rank the same file.");
      return nullptr;
    }
    for (const LabelPart& part : parts_)
      for (const RawLabel& label : part.labels())
        if (listed != nullptr && part.found().names.empty() &&
            (part.is_numbered() || listed->line(label.text) < 0))
          return nullptr;
    return listed == nullptr ? nullptr : &listed->found().names;
  }

  void by_list(const std::vector<std::string>& list) {
    meaning_.classes = list;
    const LabelPart& listed =
        *std::find_if(parts_.begin(), parts_.end(),
                      [](const LabelPart& part) { return !part.found().names.empty(); });
    set_ids([&](const LabelPart& part, const RawLabel& label) {
      if (part.is_numbered() && label.number >= 0) return static_cast<int>(label.number - first_);
      const FoundLabels& found = part.found();
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
      highest = std::max(highest, part.highest());
      for (const RawLabel& label : part.labels()) used.insert(label.number);
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
    const bool are_named = std::any_of(texts.begin(), texts.end(), [](const auto& entry) {
      return !is_class_number(entry.second);
    });
    if (are_named || (first_ == 0 && used.size() == meaning_.classes.size())) return;
    meaning_.note = "the labels are numbers without names, " + std::to_string(*used.begin()) +
                    " to " + std::to_string(highest) + ", of which " + std::to_string(used.size()) +
                    " are used: classes are named by them, and " +
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
      for (const RawLabel& label : part.labels()) {
        if (label.number < 0 || label.text.empty()) continue;
        const Named& numbered =
            by_number.try_emplace(label.number, Named{part, label}).first->second;
        const Named& named = by_text.try_emplace(label.text, Named{part, label}).first->second;
        for (const Named& other : {numbered, named})
          if (other.label != label)
            fail_labels(part.found(),
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
        fail_labels(parts_.front().found(),
                    "the name '" + excerpt(name) +
                        "' belongs to one number, and another number "
                        "without a name is " +
                        excerpt(name) + ". Give --classes FILE with a name for each number.");
  }

  // `numbered` are parts among which one has numbers without names.
  [[noreturn]] void refuse_mixed(const LabelPart& part, const RawLabel& name,
                                 std::span<const LabelPart> numbered) const {
    for (const LabelPart& other : numbered)
      for (const RawLabel& label : other.labels())
        if (label.number >= 0)
          fail_labels(part.found(),
                      "the class '" + excerpt(name_of(part, name)) + "' in " +
                          place_of(part, name) + " is a name, but the label " +
                          std::to_string(label.number) + " in " + place_of(other, label) +
                          " is a number. Write the names, or the numbers, in all of them, "
                          "or give --classes FILE with a name for each number.");
    throw InternalError("names without numbers cannot be mixed");
  }

  std::string name_of(const LabelPart& part, const RawLabel& label) const {
    if (!part.is_numbered()) return label.text;
    const std::int64_t number = part.number(label);
    if (part.is_listed() && label.number >= 0)
      return part.found().names[static_cast<std::size_t>(number - first_)];
    return label.text.empty() ? std::to_string(number) : label.text;
  }

  // Names and lists are joined, sorted.
  void by_name() {
    const LabelPart* numbered = nullptr;
    std::set<std::string> names;
    for (const LabelPart& part : parts_) {
      names.insert(part.found().names.begin(), part.found().names.end());
      for (const RawLabel& label : part.labels()) {
        names.insert(name_of(part, label));
        if (part.is_numbered() && !part.is_listed() && label.text.empty()) numbered = &part;
      }
    }
    for (const LabelPart& part : parts_)
      for (const RawLabel& label : part.labels())
        if (numbered != nullptr && !is_class_number(name_of(part, label)))
          refuse_mixed(part, label, {numbered, 1});
    meaning_.classes.assign(names.begin(), names.end());
    std::unordered_map<std::string_view, int> ids;
    for (const std::string& name : meaning_.classes)
      ids.emplace(name, static_cast<int>(ids.size()));
    set_ids(
        [&](const LabelPart& part, const RawLabel& label) { return ids.at(name_of(part, label)); });
    if (std::any_of(parts_.begin(), parts_.end(),
                    [](const LabelPart& part) { return !part.found().named_by.empty(); }))
      meaning_.note =
          "the ranks' lists of classes differ: class ids follow the sorted names. Give --classes "
          "FILE for another order";
  }

  std::vector<LabelPart> parts_;
  const std::int64_t first_;
  LabelMeaning meaning_;
};

}  // namespace

std::optional<int> find_first_label(const LabelParts& train, const LabelParts& valid,
                                    std::optional<int> given, std::string& note) {
  return FirstLabel(train, valid).find(given, note);
}

LabelMeaning meaning_of(const LabelParts& parts, std::optional<int> first_label) {
  return Classes(parts, first_label).decide();
}

namespace {

namespace fs = std::filesystem;

// Returns class ids by name. Of several ids with one name, takes one that has images: an unused id
// may share its name with a class.
std::unordered_map<std::string, int> ids_by_name(const Dataset& set) {
  std::vector<bool> is_used(set.classes.size(), false);
  for (const Sample& item : set.samples) {
    if (item.label >= 0) is_used[item.label] = true;
  }
  std::unordered_map<std::string, int> ids;
  for (const bool used : {true, false}) {
    for (std::size_t id = 0; id < set.classes.size(); ++id) {
      if (is_used[id] == used) ids.emplace(set.classes[id], static_cast<int>(id));
    }
  }
  return ids;
}

template <typename Pointer>
std::vector<Pointer> pointers_to(std::vector<FoundLabels>& all) {
  std::vector<Pointer> parts;
  parts.reserve(all.size());
  for (FoundLabels& found : all) parts.push_back(&found);
  return parts;
}

// The meaning of one set's labels, and what was assumed for both sets.
LabelMeaning with_notes(LabelMeaning meaning, const std::string& first,
                        const std::string& reading) {
  if (!first.empty()) meaning.note = first;
  if (!reading.empty())
    meaning.note = meaning.note.empty() ? reading : reading + "; " + meaning.note;
  return meaning;
}

// Gives the samples of `set` their classes. `found` are its labels, `part` is its place in the
// decision.
void take(const LabelMeaning& meaning, std::size_t part, FoundLabels found, Dataset& set) {
  const std::vector<int>& ids = meaning.ids[part];
  std::vector<int> new_ids(std::max(set.classes.size(), ids.size()), -1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    new_ids[found.ids.empty() ? i : static_cast<std::size_t>(found.ids[i])] = ids[i];
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (const int label = set.samples.label(i); label >= 0)
      set.samples.set_label(i, new_ids[static_cast<std::size_t>(label)]);
  if (set.classes != meaning.classes) set.schema_json = schema_text(meaning.classes);
  set.classes = meaning.classes;
  set.first_label = meaning.first_label;
  std::erase(set.notes, found.note);
  found.ids = ids;
  found.note = meaning.note;
  if (!found.note.empty()) set.notes.push_back(found.note);
  set.found = std::move(found);
}

}  // namespace

std::string reading_text(const RecordOptions& records) {
  if (records == RecordOptions{}) return {};
  std::string contents;
  try {
    if (!records.classes_file.empty()) contents = read_file(records.classes_file, kMaxClassesBytes);
  } catch (const std::exception&) {  // the reader will report it
  }
  const RecordKeys& keys = records.keys;
  return shell_words({keys.image, keys.label, keys.text, keys.name,
                      std::to_string(records.first_label.value_or(-1)),
                      records.classes_file.empty() ? "" : hex_digits(content_hash(contents))});
}

std::string note_of_unused_ids(const std::vector<bool>& is_category, const std::string& file) {
  std::vector<std::string> ranges;
  std::size_t count = 0;
  for (std::size_t id = 0; id < is_category.size();) {
    std::size_t end = id;
    while (end < is_category.size() && !is_category[end]) ++end;
    if (end > id)
      ranges.push_back(std::to_string(id) +
                       (end == id + 1 ? "" : " to " + std::to_string(end - 1)));
    count += end - id;
    id = end + 1;
  }
  if (count == 0) return {};
  std::string ids;
  for (std::size_t i = 0; i < std::min(ranges.size(), kMaxNamed); ++i)
    ids += (i == 0 ? "" : ", ") + ranges[i];
  return file + " has no category with id " + ids + (ranges.size() > kMaxNamed ? ", …" : "") +
         ": " + std::to_string(count) + " of the " + std::to_string(is_category.size()) +
         " classes have no images and are named 'Others'. Number the categories from 0 without "
         "gaps to be rid of them";
}

void map_classes(const Dataset& train, Dataset& valid) {
  const std::unordered_map<std::string, int> train_ids = ids_by_name(train);
  std::vector<int> new_ids(valid.classes.size(), -1);
  for (std::size_t id = 0; id < valid.classes.size(); ++id) {
    const auto found = train_ids.find(valid.classes[id]);
    if (found != train_ids.end()) new_ids[id] = found->second;
  }
  std::vector<std::string> lacking;
  std::vector<bool> is_named(valid.classes.size(), false);
  for (const Sample& item : valid.samples) {
    if (item.label < 0 || new_ids[item.label] >= 0 || is_named[item.label]) continue;
    is_named[item.label] = true;
    const std::string& name = valid.classes[item.label];
    lacking.push_back(quoted_among(name, train.classes));
    if (lacking.back() != "'" + printable(name) + "'") continue;
    if (const std::string near = closest(name, train.classes); !near.empty())
      lacking.back() += " (similar: '" + near + "')";
  }
  if (!lacking.empty()) {
    std::string names;
    for (std::size_t i = 0; i < std::min(lacking.size(), kMaxNamed); ++i) {
      names += (i == 0 ? "" : ", ") + lacking[i];
    }
    if (lacking.size() > kMaxNamed) names += ", …";
    const DatasetContext context{.root = valid.root, .name = valid.name};
    context.fail(std::to_string(lacking.size()) +
                 (lacking.size() == 1 ? " class is" : " classes are") +
                 " not in the training dataset '" + train.root.string() + "': " + names +
                 ". Add them to the training data, or remove them here. It has " +
                 quoted_names(train.classes, kMaxNamed) + ".");
  }
  for (std::size_t i = 0; i < valid.samples.size(); ++i) {
    if (const int label = valid.samples.label(i); label >= 0)
      valid.samples.set_label(i, new_ids[label]);
  }
  valid.classes = train.classes;
  valid.found = {};
}

FoundLabels found_labels(const Dataset& set) {
  FoundLabels found = set.found;
  found.where = set.name + " '" + set.root.string() + "'";
  if (!found.labels.empty()) return found;
  std::vector<bool> is_used(set.classes.size());
  for (std::size_t i = 0; i < set.samples.size(); ++i)
    if (const int label = set.samples.label(i); label >= 0)
      is_used[static_cast<std::size_t>(label)] = true;
  for (std::size_t id = 0; id < is_used.size(); ++id) {
    if (!is_used[id]) continue;
    found.labels.push_back({.number = -1, .text = set.classes[id]});
    found.ids.push_back(static_cast<int>(id));
  }
  using Kind = Dataset::Kind;
  found.names = set.classes;
  if (set.kind == Kind::kCoco || set.kind == Kind::kImageDirectory)
    found.named_by = "its list of classes";
  return found;
}

void settle_labels(Dataset& set, std::optional<int> first_label) {
  const std::string reading = decide_readings({&set.found});
  std::string note;
  const LabelParts parts = {&set.found};
  const std::optional<int> first = find_first_label(parts, {}, first_label, note);
  take(with_notes(meaning_of(parts, first), note, reading), 0, set.found, set);
}

void settle_labels(Dataset& train, Dataset& valid, std::optional<int> first_label) {
  settle_labels({found_labels(train)}, {found_labels(valid)}, 0, first_label, train, valid);
}

void settle_labels(std::vector<FoundLabels> trains, std::vector<FoundLabels> valids,
                   std::size_t rank, std::optional<int> first_label, Dataset& train,
                   Dataset& valid) {
  const bool leads = !train.is_stream();
  std::vector<FoundLabels*> both = pointers_to<FoundLabels*>(valids);
  if (leads)
    for (FoundLabels& found : trains) both.push_back(&found);
  const std::string reading = decide_readings(both);
  std::string note;
  const LabelParts others = pointers_to<const FoundLabels*>(valids);
  const LabelParts leaders = leads ? pointers_to<const FoundLabels*>(trains) : others;
  const std::optional<int> first =
      find_first_label(leads ? leaders : LabelParts{}, others, first_label, note);
  const LabelMeaning meaning = with_notes(meaning_of(leaders, first), note, reading);
  if (!leads) {
    take(meaning, rank, valids[rank], valid);
    train.classes = valid.classes;
    train.schema_json = valid.schema_json;
    if (first) train.first_label = first;
    return;
  }
  take(meaning, rank, trains[rank], train);
  LabelMeaning own = meaning_of({&valids[rank]}, first);
  own.note.clear();
  take(own, 0, valids[rank], valid);
  map_classes(train, valid);
}

void take_given_names(const DatasetContext& context, Dataset& set) {
  FoundLabels& found = set.found;
  found.where = context.name + " '" + context.root.string() + "'";
  const fs::path given = context.records.classes_file;
  const fs::path beside = path_beside(context, kClassesName);
  if (!given.empty()) {
    found.named_by = "--classes " + quoted_path(given);
    found.names = read_class_lines(given, found.named_by, context);
  } else if (fs::exists(beside)) {
    if (beside.parent_path() == context.root) set.stamps.push_back(context.stamp(kClassesName));
    found.named_by = kClassesName;
    found.names = read_class_lines(beside, found.named_by, context);
  }
}

void use_class_names(const DatasetContext& context, Dataset& set) {
  FoundLabels found = found_labels(set);
  take_given_names(context, set);
  found.names = set.found.names;
  found.named_by = set.found.named_by;
  found.where = set.found.where;
  if (set.labeled()) take(meaning_of({&found}, {}), 0, found, set);
}

}  // namespace kiln
