#include <string>

#include "describe/component.h"

namespace kiln {
namespace {

// A bar would end the table cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

std::string default_cell(const Option& option) {
  if (option.required) return "(required)";
  if (option.default_text.empty()) return "";
  std::string text = "`";
  text += cell(option.default_text);
  return text += '`';
}

}  // namespace

std::string options_markdown(const CommandInfo& command) {
  std::string text = "| Option | Default | Range | Unit | Meaning |\n|---|---|---|---|---|\n";
  for (const Option& option : command.options) {
    text += "| `--" + option.name + "` | " + default_cell(option) + " | " +
            cell(range_text(option)) + " | " + cell(option.unit) + " | " + cell(option.help) +
            " |\n";
  }
  return text;
}

}  // namespace kiln
