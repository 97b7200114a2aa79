#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/describe.h"

namespace kiln {
namespace {

constexpr std::int64_t kNoMinimum = std::numeric_limits<std::int64_t>::min();

// JSON strings are valid YAML.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string key(const std::string& name, const std::string& value) {
  return "    " + name + ": " + value + "\n";
}

bool is_optional(const Option& option) {
  return option.canvas == Canvas::kFileIn || option.canvas == Canvas::kFolderIn;
}

bool is_input(const Option& option) {
  return option.canvas == Canvas::kModelIn || option.canvas == Canvas::kDataIn ||
         is_optional(option) || option.canvas == Canvas::kModelFileIn ||
         option.canvas == Canvas::kParameter;
}

bool is_output(const Option& option) {
  return option.canvas == Canvas::kModelOut || option.canvas == Canvas::kDataOut ||
         option.canvas == Canvas::kCheckpoints;
}

std::string bounds(const Option& option) {
  std::string text;
  if (option.minimum != kNoMinimum)
    text = key("min", std::to_string(option.minimum)) + key("max", std::to_string(option.maximum));
  return text;
}

std::string choices(const Option& option) {
  std::string list;
  for (const std::string& choice : option.choices)
    list += (list.empty() ? "" : ", ") + quoted(choice);
  return key("enum", "[" + list + "]");
}

// Type, default and range. A number that must be greater than 0 has `min: 0`: the format cannot
// express exclusive bounds, and the program checks again.
std::string parameter(const Option& option) {
  const std::string value = canvas_default(option);
  switch (option.kind) {
    case ValueKind::kInteger:
      return key("type", "integer") + key("default", value) + bounds(option);
    case ValueKind::kNumber:
    case ValueKind::kNumberFrom:
      return key("type", "number") + key("default", value) + bounds(option);
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return key("type", "boolean") + key("default", value == "True" ? "true" : "false");
    case ValueKind::kChoice:
    case ValueKind::kModelName:
      return key("type", "string") + key("default", quoted(value)) + choices(option);
    default:
      return key("type", "string") + key("default", quoted(value));
  }
}

std::string input(const Option& option) {
  std::string text = "  " + canvas_name(option.name) + ":\n";
  if (option.canvas == Canvas::kParameter) {
    text += parameter(option);
  } else if (is_optional(option)) {
    text += key("type", option.canvas == Canvas::kFileIn ? "uri_file" : "uri_folder") +
            key("mode", "ro_mount") + key("optional", "true");
  } else if (option.canvas == Canvas::kModelFileIn) {
    text += key("type", "uri_file") + key("mode", "ro_mount");
  } else {
    text += key("type", "uri_folder") + key("mode", "ro_mount");
  }
  return text + key("description", quoted(form_text(option)));
}

std::string output(const Option& option) {
  return "  " + canvas_name(option.name) + ":\n" + key("type", "uri_folder") +
         key("mode", "rw_mount") + key("description", quoted(form_text(option)));
}

// True if a value may contain spaces, so that it must be quoted for the shell.
bool has_spaces(const Option& option) {
  return std::any_of(option.choices.begin(), option.choices.end(), [](const std::string& choice) {
    return choice.find(' ') != std::string::npos;
  });
}

// YAML folds the lines into one.
std::string command_lines(const CommandInfo& command) {
  std::string text = "command: >-\n  kiln " + command.name + "\n";
  for (const Option& option : command.options) {
    if (!is_input(option) && !is_output(option)) continue;
    const std::string value = std::string("${{") + (is_output(option) ? "outputs." : "inputs.") +
                              canvas_name(option.name) + "}}";
    std::string words = "--" + option.name + " " + (has_spaces(option) ? "'" + value + "'" : value);
    if (is_optional(option)) words = "$[[" + words + "]]";
    text += "  " + words + "\n";
  }
  return text;
}

// Returns a type name that versions 1 and 2 of Kubeflow's SDK know; any other name would silently
// become an untyped artifact.
std::string type_of(const Option& option) {
  switch (option.canvas) {
    case Canvas::kModelIn:
    case Canvas::kModelFileIn:
    case Canvas::kModelOut:
      return "Model";
    case Canvas::kDataIn:
    case Canvas::kDataOut:
      return "Dataset";
    default:
      break;
  }
  switch (option.kind) {
    case ValueKind::kInteger:
      return "Integer";
    case ValueKind::kNumber:
    case ValueKind::kNumberFrom:
      return "Float";
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
      return "Boolean";
    default:
      return "String";
  }
}

std::string port(const Option& option) {
  std::string text = "- name: " + canvas_name(option.name) + "\n  type: " + type_of(option) + "\n";
  if (option.canvas == Canvas::kParameter)
    text += "  default: " + quoted(canvas_default(option)) + "\n";
  return text + "  description: " + quoted(form_text(option)) + "\n";
}

std::string argument(const Option& option, const std::string& placeholder) {
  return "    - --" + option.name + "\n    - " + placeholder + "\n";
}

// The three lists of a component, filled from the options.
struct Lists {
  std::string inputs, outputs, arguments;

  void add(const Option& option) {
    const std::string name = canvas_name(option.name);
    switch (option.canvas) {
      case Canvas::kParameter:
        inputs += port(option);
        arguments += argument(option, "{inputValue: " + name + "}");
        break;
      case Canvas::kModelIn:
      case Canvas::kModelFileIn:
      case Canvas::kDataIn:
        inputs += port(option);
        arguments += argument(option, "{inputPath: " + name + "}");
        break;
      case Canvas::kModelOut:
      case Canvas::kDataOut:
        outputs += port(option);
        arguments += argument(option, "{outputPath: " + name + "}");
        break;
      case Canvas::kRanksOfHost:
        arguments += argument(option, "auto");
        break;
      case Canvas::kKubeflowRun:
        outputs += "- name: metrics\n  type: Metrics\n  description: \"Metrics of the run.\"\n";
        arguments += argument(option, "{executorInput: null}");
        break;
      case Canvas::kCheckpoints:  // Kubeflow keeps outputs only of steps that succeed
      case Canvas::kFileIn:
      case Canvas::kFolderIn:
      case Canvas::kHidden:
        break;
    }
  }
};

// Returns the words of the command's name as items of a YAML list, such as "transform, init".
std::string name_words(const CommandInfo& command) {
  std::string words = command.name;
  if (const std::size_t space = words.find(' '); space != std::string::npos)
    words.replace(space, 1, ", ");
  return words;
}

}  // namespace

std::string azure_component(const ComponentInfo& component, const ComponentFacts& facts) {
  const CommandInfo& command = component.command;
  std::string inputs, outputs;
  bool has_ranks = false;
  for (const Option& option : command.options) {
    if (is_input(option)) inputs += input(option);
    if (is_output(option)) outputs += output(option);
    has_ranks = has_ranks || option.canvas == Canvas::kRanksOfHost;
  }
  std::string text =
      "# Printed by `kiln describe --format component`.\n"
      "$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json\n"
      "type: command\n";
  text += "name: kiln_" + canvas_name(component.name) + "\nversion: " + quoted(facts.version) +
          "\ndisplay_name: " + quoted("Kiln: " + component.name) +
          "\ndescription: " + quoted(component.summary) +
          "\ntags:\n  task: image-classification\n  license: Apache-2.0\n";
  text += "inputs:\n" + inputs + "outputs:\n" + outputs + command_lines(command) +
          "environment:\n  image: " + quoted(facts.image) + "\n";
  if (has_ranks)
    text +=
        "distribution:\n  type: mpi\n  process_count_per_instance: 1\n"
        "resources:\n  instance_count: 1\n  shm_size: 8g\n";
  return text;
}

std::string form_text(const Option& option) {
  // The form passes a value for every option that it shows, even if it is the default.
  if (option.name == "config")
    return "YAML or JSON file with options that this form does not show. The form overrides the "
           "file.";
  // An output cannot be left out of a form.
  if (option.canvas == Canvas::kCheckpoints)
    return "Folder for checkpoints. Use a separate path, the same in every job: a job that finds "
           "checkpoints there resumes from the newest.";
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

std::string kubeflow_component(const ComponentInfo& component, const ComponentFacts& facts) {
  Lists lists;
  for (const Option& option : component.command.options) lists.add(option);
  std::string text = "# Printed by `kiln describe --format kubeflow`.\n";
  text += "name: " + quoted("Kiln " + component.name) +
          "\ndescription: " + quoted(component.summary) +
          "\nmetadata:\n  annotations:\n    version: " + quoted(facts.version) + "\n";
  text += "inputs:\n" + lists.inputs + "outputs:\n" + lists.outputs;
  return text + "implementation:\n  container:\n    image: " + quoted(facts.image) +
         "\n    command: [kiln, " + name_words(component.command) + "]\n    args:\n" +
         lists.arguments;
}

}  // namespace kiln
