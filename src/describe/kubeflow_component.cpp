#include <nlohmann/json.hpp>
#include <string>

#include "describe/component.h"

namespace kiln {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

// Type names that both SDKs know; others become an untyped artifact without a word.
std::string type_of(const Option& option) {
  switch (option.canvas) {
    case Canvas::kModelIn:
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

// The three lists of a component as its options fill them.
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
        outputs += "- name: metrics\n  type: Metrics\n  description: \"Figures of the run.\"\n";
        arguments += argument(option, "{executorInput: null}");
        break;
      case Canvas::kFileIn:
      case Canvas::kHidden:
        break;
    }
  }
};

}  // namespace

std::string kubeflow_component(const CommandInfo& command, const ComponentFacts& facts) {
  Lists lists;
  for (const Option& option : command.options) lists.add(option);
  std::string text = "# Printed by `kiln describe --format kubeflow`.\n";
  text += "name: " + quoted("Kiln " + command.name) + "\ndescription: " + quoted(command.summary) +
          "\nmetadata:\n  annotations:\n    version: " + quoted(facts.version) + "\n";
  text += "inputs:\n" + lists.inputs + "outputs:\n" + lists.outputs;
  return text + "implementation:\n  container:\n    image: " + quoted(facts.image) +
         "\n    command: [kiln, " + command.name + "]\n    args:\n" + lists.arguments;
}

}  // namespace kiln
