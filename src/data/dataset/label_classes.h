// Which classes the labels of a dataset stand for: one each or, with --task multi-label, as many as
// an image has. What reads and uses datasets asks only here.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "record/vocabulary.h"

namespace kiln {

struct Dataset;

// Between the classes of an image in a list, and in texts.
inline constexpr char kLabelSeparator = ';';

struct LabelClasses {
  // A label is an index into these: the ids of an image's classes, ascending, for each combination
  // that occurs. Empty: a label is the id of its class.
  std::vector<std::vector<int>> sets;

  // Calls `visit` with the id of each class of a label; of none for -1.
  template <typename Visit>
  void visit(int label, Visit&& visit) const {
    if (label < 0) return;
    if (sets.empty()) return visit(label);
    for (const int id : sets[static_cast<std::size_t>(label)]) visit(id);
  }
  TaskKind task() const;
  // How many labels there are.
  std::size_t count(std::size_t num_classes) const {
    return sets.empty() ? num_classes : sets.size();
  }
};

// Combinations of classes, each with the label that stands for it.
class LabelSets {
 public:
  // `ids` in any order, also repeated.
  int label_of(std::vector<int> ids);
  const std::vector<std::vector<int>>& sets() const { return sets_; }

 private:
  std::map<std::vector<int>, int> labels_;
  std::vector<std::vector<int>> sets_;
};

// The classes of images that are listed one by one.
class ListedClasses {
 public:
  explicit ListedClasses(const RecordOptions& records);

  // Whether what is somewhere in an image is a class of it.
  bool takes_regions() const { return several_; }
  // False if the image has another class, and may have only one.
  bool add(std::size_t image, int id, Dataset& set);
  // Gives the images their labels, after the last add().
  void settle(Dataset& set) const;

 private:
  const bool several_;
  std::map<std::size_t, std::vector<int>> classes_;
};

// Of a dataset whose form gives one class for each image: as --task says.
void take_task(const RecordOptions& records, Dataset& set);

// Gives the classes new ids, by their old ones; below 0 are those that no image has.
void renumber(const std::vector<int>& new_ids, Dataset& set);

}  // namespace kiln
