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
constexpr std::uint64_t kMaxClassesBytes = 64 << 20;

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

std::unordered_map<std::string, int> ids_of_lines(const std::vector<std::string>& lines,
                                                  const DatasetContext& context) {
  const std::string shown = "--classes " + quoted_path(context.records.classes_file);
  if (lines.empty()) context.fail(shown + " is empty. Give one class name per line.");
  std::unordered_map<std::string, int> ids;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto [found, is_new] = ids.emplace(lines[i], static_cast<int>(i));
    if (lines[i].empty())
      context.fail(shown + ", line " + std::to_string(i + 1) + ", is empty. Name the class.");
    if (!is_new) {
      context.fail(shown + " has '" + excerpt(lines[i]) + "' in lines " +
                   std::to_string(found->second + 1) + " and " + std::to_string(i + 1) +
                   ". Use distinct names.");
    }
  }
  return ids;
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
                 ". Add them to the training data, or remove them here.");
  }
  for (std::size_t i = 0; i < valid.samples.size(); ++i) {
    if (const int label = valid.samples.label(i); label >= 0)
      valid.samples.set_label(i, new_ids[label]);
  }
  valid.classes = train.classes;
}

void use_class_names(const DatasetContext& context, Dataset& set) {
  const fs::path file = context.records.classes_file;
  const std::string shown = "--classes " + quoted_path(file);
  std::vector<std::string> lines = read_class_lines(file, shown, context);
  const std::unordered_map<std::string, int> ids = ids_of_lines(lines, context);
  if (!set.labeled() || set.classes == lines) return;
  std::vector<std::string> lacking;
  std::vector<int> new_ids(set.classes.size(), -1);
  std::vector<bool> is_met(set.classes.size(), false);
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const int label = set.samples.label(i);
    if (label < 0) continue;
    const auto id = static_cast<std::size_t>(label);
    if (!is_met[id]) {
      const auto found = ids.find(set.classes[id]);
      if (found == ids.end()) lacking.push_back(set.classes[id]);
      if (found != ids.end()) new_ids[id] = found->second;
    }
    is_met[id] = true;
    set.samples.set_label(i, new_ids[id]);
  }
  if (!lacking.empty()) {
    context.fail(std::to_string(lacking.size()) +
                 (lacking.size() == 1 ? " class is" : " classes are") + " not in " + shown + ": " +
                 quoted_among(lacking, lines, kMaxNamed) +
                 ". Add a line for each, or remove the images.");
  }
  set.classes = std::move(lines);
  set.schema_json = schema_text(set.classes);
}

}  // namespace kiln
