#include <algorithm>

#include "describe/component.h"

namespace kiln {

bool is_component(const CommandInfo& command) {
  return std::any_of(command.options.begin(), command.options.end(), [](const Option& option) {
    return option.canvas == Canvas::kDataOut || option.canvas == Canvas::kModelOut;
  });
}

std::string form_text(const Option& option) {
  // The form sends a value for each option that it shows.
  if (option.name == "config")
    return "YAML or JSON file with options that this form does not show. What it does show wins "
           "over the file.";
  std::string text = option.help;
  const std::string range = range_text(option);
  const bool is_switch = option.kind == ValueKind::kBoolean || option.kind == ValueKind::kSwitch;
  if (!range.empty() && !is_switch) text += " Range: " + range + ".";
  if (!option.unit.empty()) text += " Unit: " + option.unit + ".";
  return text;
}

std::string canvas_name(const std::string& name) {
  std::string text = name;
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '-' || c == ' '; }, '_');
  return text;
}

std::string canvas_default(const Option& option) {
  if (!option.default_text.empty() || option.choices.empty()) return option.default_text;
  return option.choices.front();
}

}  // namespace kiln
