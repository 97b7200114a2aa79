#include "data/split/labels_file.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/text.h"
#include "data/dataset/archive_files.h"
#include "data/dataset/readers.h"
#include "data/split/image_rows.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxLabelBytes = 200;
constexpr int kLeftOut = -1;

void check_label(const ImageRow& row, const std::string& name, Problems& problems) {
  if (row.value.size() <= kMaxLabelBytes && printable(row.value) == row.value &&
      row.value.find('\t') == row.value.npos)
    return;
  problems.add(Error(ErrorCode::kUserError,
                     name + " cannot be used: line " + std::to_string(row.line) + ": the label '" +
                         excerpt(printable(row.value)) +
                         "' must be UTF-8 of at most 200 bytes, without control characters."));
}

class Relabeling {
 public:
  explicit Relabeling(const Dataset& set) : labels(set.samples.size()), classes(set.classes) {
    for (std::size_t c = classes.size(); c-- > 0;) ids_[classes[c]] = static_cast<int>(c);
    for (std::size_t i = 0; i < set.samples.size(); ++i) labels[i] = set.samples.label(i);
  }

  void take(const ImageRow& row) {
    const int id = row.value.empty() ? kLeftOut : id_of(row.value);
    for (const std::uint32_t i : row.images) labels[i] = id;
  }

  std::vector<int> labels;  // by image
  std::vector<std::string> classes;

 private:
  int id_of(const std::string& label) {
    const auto [known, is_new] = ids_.emplace(label, static_cast<int>(classes.size()));
    if (is_new) classes.push_back(label);
    return known->second;
  }

  std::unordered_map<std::string, int> ids_;
};

// By class: true if it had images and has none now.
std::vector<bool> gone_classes(const Dataset& set, const Relabeling& relabeling) {
  std::vector<bool> had(relabeling.classes.size()), has(relabeling.classes.size());
  for (std::size_t i = 0; i < relabeling.labels.size(); ++i) {
    had[static_cast<std::size_t>(set.samples.label(i))] = true;
    if (relabeling.labels[i] >= 0) has[static_cast<std::size_t>(relabeling.labels[i])] = true;
  }
  for (std::size_t c = 0; c < had.size(); ++c) had[c] = had[c] && !has[c];
  return had;
}

}  // namespace

LabelChanges apply_labels(std::string_view text, const std::string& name, Dataset& set) {
  Problems problems;
  const std::vector<ImageRow> rows = parse_image_rows(text, name, "label", set, problems);
  refuse_unknown_paths(rows, name, set, {}, problems);
  Relabeling relabeling(set);
  for (const ImageRow& row : rows) {
    check_label(row, name, problems);
    relabeling.take(row);
  }
  const std::vector<int>& labels = relabeling.labels;
  if (problems.empty() && std::all_of(labels.begin(), labels.end(), [](int id) { return id < 0; }))
    problems.add(Error(ErrorCode::kUserError,
                       name + " drops every image in '" + set.root.string() + "'. Keep some."));
  if (problems.empty() && relabeling.classes.size() > std::max(kMaxClasses, set.classes.size()))
    problems.add(Error(ErrorCode::kUserError,
                       name + " cannot be used: it results in more than 100,000 classes."));
  problems.throw_if_any();

  LabelChanges changes;
  changes.new_classes.assign(
      relabeling.classes.begin() + static_cast<std::ptrdiff_t>(set.classes.size()),
      relabeling.classes.end());
  const std::vector<bool> gone = gone_classes(set, relabeling);
  std::vector<int> new_ids(gone.size());
  std::vector<std::string> classes;
  for (std::size_t c = 0; c < gone.size(); ++c) {
    new_ids[c] = static_cast<int>(classes.size());
    (gone[c] ? changes.gone_classes : classes).push_back(relabeling.classes[c]);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0) changes.left_out.emplace_back(set.samples.file_name(i));
    if (labels[i] >= 0 && labels[i] != set.samples.label(i)) ++changes.num_changed;
    set.samples.set_label(i,
                          labels[i] < 0 ? kLeftOut : new_ids[static_cast<std::size_t>(labels[i])]);
  }
  std::sort(changes.left_out.begin(), changes.left_out.end());
  if (!changes.left_out.empty()) set.samples.remove_unlabeled();
  if (!changes.new_classes.empty() || !changes.gone_classes.empty()) {
    set.classes = std::move(classes);
    set.schema_json = schema_text(set.classes);
  }
  return changes;
}

}  // namespace kiln
