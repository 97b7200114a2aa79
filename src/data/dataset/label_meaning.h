// What the labels of images mean: one decision for all files and parts of a dataset, for both sets
// of a run, and for every command. docs/formats.md ("What labels mean") states the rule.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset/found_labels.h"

namespace kiln {

using LabelParts = std::vector<const FoundLabels*>;

// The number of the first class; empty where no label is a number. `note` gets what was assumed.
// `given` is --first-label. Throws Error kInvalidDataset, naming both sides, if no number suits all
// parts of both sets.
std::optional<int> find_first_label(const LabelParts& train, const LabelParts& valid,
                                    std::optional<int> given, std::string& note);

struct LabelMeaning {
  std::vector<std::string> classes;   // by id
  std::vector<std::vector<int>> ids;  // of each part's labels
  std::optional<int> first_label;     // as given to meaning_of()
  std::string note;                   // what became of the numbers; empty: nothing to say
};

// The classes of one dataset, of which `parts` may be on several ranks. Throws Error
// kInvalidDataset for a name that is not given, for numbers among names, and for a class with two
// names or two numbers.
LabelMeaning meaning_of(const LabelParts& parts, std::optional<int> first_label);

}  // namespace kiln
