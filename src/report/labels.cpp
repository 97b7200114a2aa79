#include "report/labels.h"

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kMostCharacters = 40;

}  // namespace

std::string shortened(std::string_view text, std::size_t most) {
  std::string shown = printable(text);
  std::size_t characters = 0;
  std::size_t end_of_shortened = 0;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!begins_character(shown[i])) continue;
    if (++characters == most) end_of_shortened = i;
    if (characters > most) return shown.substr(0, end_of_shortened) + "…";
  }
  return shown;
}

std::string class_name(const DataRecord& data, int label) {
  const auto index = static_cast<std::size_t>(label);
  if (label < 0 || index >= data.classes.size()) return "class " + std::to_string(label);
  return data.classes[index].empty() ? "(no name)"
                                     : shortened(data.classes[index], kMostCharacters);
}

std::string quoted_class(const DataRecord& data, int label) {
  return "“\u2068" + class_name(data, label) + "\u2069”";
}

long long count_of(const std::vector<long long>& counts, int label) {
  const auto index = static_cast<std::size_t>(label);
  return label >= 0 && index < counts.size() ? counts[index] : 0;
}

}  // namespace kiln
