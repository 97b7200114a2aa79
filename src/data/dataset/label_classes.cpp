#include "data/dataset/label_classes.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "data/dataset/dataset.h"

namespace kiln {

TaskKind LabelClasses::task() const {
  return sets.empty() ? TaskKind::kSingleLabel : TaskKind::kMultiLabel;
}

int LabelSets::label_of(std::vector<int> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  const auto [known, is_new] = labels_.emplace(ids, static_cast<int>(sets_.size()));
  if (is_new) sets_.push_back(std::move(ids));
  return known->second;
}

ListedClasses::ListedClasses(const RecordOptions& records)
    : several_(records.task == TaskKind::kMultiLabel) {}

bool ListedClasses::add(std::size_t image, int id, Dataset& set) {
  if (several_) {
    classes_[image].push_back(id);
    return true;
  }
  const int label = set.samples.label(image);
  set.samples.set_label(image, id);
  return label < 0 || label == id;
}

void ListedClasses::settle(Dataset& set) const {
  if (!several_) return;
  LabelSets sets;
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const auto found = classes_.find(i);
    set.samples.set_label(
        i, sets.label_of(found == classes_.end() ? std::vector<int>() : found->second));
  }
  set.labels.sets = sets.sets();
}

void take_task(const RecordOptions& records, Dataset& set) {
  if (records.task != TaskKind::kMultiLabel) return;
  for (const std::string& name : set.classes)
    if (name.find(kLabelSeparator) != name.npos)
      set.fail("the name of its class '" + name +
               "' has a ';', which is between the labels of an image with --task multi-label. "
               "Rename the class.");
  if (!set.labels.sets.empty()) return;
  for (int id = 0; id < std::ssize(set.classes); ++id) set.labels.sets.push_back({id});
}

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

}  // namespace kiln
