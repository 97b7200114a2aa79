#include "config/options.h"

#include <algorithm>
#include <iterator>

#include "config/command_rows.h"
#include "config/option_kinds.h"

namespace kiln {
namespace {

std::vector<CommandInfo> build_table() {
  std::vector<CommandInfo> commands = {
      train_command(), launch_command(),    init_model_command(),   convert_command(),
      pack_command(),  demo_data_command(), bench_loader_command(), bench_collective_command(),
      watch_command(), inspect_command(),   report_command(),       compare_command(),
  };
  std::vector<std::string> names;
  std::transform(commands.begin(), commands.end(), std::back_inserter(names),
                 [](const CommandInfo& command) { return command.name; });
  commands.push_back(describe_command(names));
  place_on_canvas(commands);
  return commands;
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return (x == '_' ? '-' : x) == (y == '_' ? '-' : y); });
}

const std::vector<CommandInfo>& command_table() {
  static const std::vector<CommandInfo> kTable = build_table();
  return kTable;
}

const CommandInfo* find_command(std::string_view name) {
  for (const CommandInfo& command : command_table()) {
    if (same_name(command.name, name)) return &command;
  }
  return nullptr;
}

const Option* find_option(const CommandInfo& command, std::string_view name) {
  for (const Option& option : command.options) {
    if (same_name(option.name, name)) return &option;
  }
  return nullptr;
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) text += i + 1 == choices.size() ? " or " : ", ";
    text += choices[i];
  }
  return text;
}

std::string range_text(const Option& option) {
  const std::string bounds =
      std::to_string(option.minimum) + " to " + std::to_string(option.maximum);
  switch (option.kind) {
    case ValueKind::kInteger:
      return option.minimum == kLowest ? "any 64-bit whole number" : bounds;
    case ValueKind::kAutoOrInteger:
      return "auto, or " + bounds;
    case ValueKind::kNumber:
      return "greater than " + std::to_string(option.minimum) + ", up to " +
             std::to_string(option.maximum);
    case ValueKind::kChoiceOrNumber: {
      std::string text;
      for (const std::string& word : option.choices) text += word + ", ";
      return text + "or greater than " + std::to_string(option.minimum) + ", up to " +
             std::to_string(option.maximum);
    }
    case ValueKind::kAllowance:
      return "0% to 100%, or " + bounds;
    case ValueKind::kChoice:
    case ValueKind::kModelName:
      return join_choices(option.choices);
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return "True or False";
    case ValueKind::kPath:
    case ValueKind::kFlag:
      return "";
  }
  return "";
}

}  // namespace kiln
