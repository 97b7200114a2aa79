#include "data/dataset/unused_options.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace kiln {

std::string without_effect(const std::vector<std::string>& options, const std::string& why) {
  return joined(options, ", ") + (options.size() == 1 ? " has" : " have") + " no effect: " + why;
}

std::string note_of_unused(const RecordOptions& records, const std::vector<const Dataset*>& sets,
                           std::vector<std::string> others) {
  const auto is_list = [](const Dataset& set) { return set.kind == Dataset::Kind::kLabelList; };
  struct Use {
    const char* text;
    bool is_given;
    bool (*is_for)(const Dataset& set);
  };
  const Use uses[] = {
      {"--columns (for lists of labels)", !records.columns.empty(), is_list},
      {"--list-root (for lists of labels)", !records.list_roots.empty(), is_list},
      {"--split-name (for lists of labels)", records.requires_sets && !records.list_sets.empty(),
       is_list},
      {"--record-keys (for record files)", records.keys != RecordKeys{},
       [](const Dataset& set) { return set.kind == Dataset::Kind::kRecords || set.is_stream(); }},
      {"--first-label (for labels that are numbers)", records.first_label.has_value(),
       [](const Dataset& set) { return set.first_label || set.is_stream(); }}};
  for (const Use& use : uses)
    if (use.is_given && std::ranges::none_of(sets, [&](auto* set) { return use.is_for(*set); }))
      others.emplace_back(use.text);
  if (others.empty()) return "";
  std::vector<std::string> forms;
  for (const Dataset* set : sets)
    if (std::string form = describe(set->kind); std::ranges::count(forms, form) == 0)
      forms.push_back(std::move(form));
  return without_effect(others, "the data are of the form " + joined(forms, " and "));
}

void tell_unused(const RecordOptions& records, Dataset& set) {
  if (std::string note = note_of_unused(records, {&set}); !note.empty())
    set.notes.push_back(std::move(note));
}

}  // namespace kiln
