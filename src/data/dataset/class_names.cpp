// Matches the classes of two datasets by name, and those of a dataset with the names in a file.
#include <algorithm>
#include <unordered_map>

#include "base/content_hash.h"
#include "base/files.h"
#include "base/text.h"
#include "base/unicode_form.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/dataset.h"
#include "data/dataset/readers.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxNamed = 10;

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
