#include "cli/describe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "cli/rows.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

// ---- the table of components ----

// An option on a variant's canvas. If its default or help is empty, that of the command is kept.
struct ShownOption {
  const char* name;
  Canvas canvas;
  const char* default_text = "";
  const char* help = "";
};

// Options that --auto decides are not shown: a form passes a value for each option that it shows,
// and a given value turns --auto off.
const std::vector<ShownOption> kOfFineTune = {
    {"data-path", Canvas::kDataIn, "",
     "Labeled images: an ImageDirectory, class folders, a COCO folder, an archive or a folder of "
     "shards. They are split into training and validation images; duplicates stay on one side."},
    {"weights", Canvas::kModelFileIn, "",
     "Initial weights: a torchvision or timm state dict (.pth or .safetensors), or SageMaker's "
     "model.tar.gz. Matching tensors are loaded; other classes get a new last layer."},
    {"trained-model-path", Canvas::kModelOut},
    {"labels", Canvas::kFileIn, "",
     "CSV file with columns path and label that corrects labels before the images are split, "
     "such as doubtful.csv from `kiln audit`."},
    {"config", Canvas::kFileIn},
    {"ranks", Canvas::kRanksOfHost},
    {"kfp-executor-input", Canvas::kKubeflowRun},
    {"model-name", Canvas::kParameter, "", "Network architecture of the weights."},
    {"valid-fraction", Canvas::kParameter},
    {"time-limit", Canvas::kParameter, "30min",
     "Finish within this time (such as 30min; units s, min, h), with the best model so far."},
    {"random-seed", Canvas::kParameter},
    {"class-weights", Canvas::kParameter},
    {"best-by", Canvas::kParameter},
    {"on-bad-image", Canvas::kParameter},
    {"max-bad-images", Canvas::kParameter}};

bool has_output(const CommandInfo& command) {
  return std::ranges::any_of(command.options, [](const Option& option) {
    return option.canvas == Canvas::kDataOut || option.canvas == Canvas::kModelOut;
  });
}

ComponentInfo fine_tune() {
  CommandInfo command = *find_command("train");
  for (Option& option : command.options) option.canvas = Canvas::kHidden;
  for (const ShownOption& shown : kOfFineTune) {
    Option& option = *std::ranges::find(command.options, shown.name, &Option::name);
    option.canvas = shown.canvas;
    if (*shown.default_text != '\0') option.default_text = shown.default_text;
    if (*shown.help != '\0') option.help = shown.help;
  }
  // Ports come before parameters, as in the commands' own tables.
  std::stable_partition(command.options.begin(), command.options.end(),
                        [](const Option& option) { return option.canvas != Canvas::kParameter; });
  return {kFineTune,
          "Fine-tune pretrained weights on one folder of labeled images, and write a "
          "ModelDirectory.",
          std::move(command)};
}

// ---- component files ----

// JSON strings are valid YAML.
std::string quoted(const std::string& text) {
  return Json(text).dump();
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

bool is_number(const Option& option) {
  return option.kind == ValueKind::kNumber || option.kind == ValueKind::kNumberFrom;
}

bool is_switch(const Option& option) {
  return option.kind == ValueKind::kBoolean || option.kind == ValueKind::kSwitch;
}

std::string bounds(const Option& option) {
  if (option.minimum == kLowest) return "";
  return key("min", std::to_string(option.minimum)) + key("max", std::to_string(option.maximum));
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
  if (option.kind == ValueKind::kInteger || is_number(option))
    return key("type", is_number(option) ? "number" : "integer") + key("default", value) +
           bounds(option);
  if (is_switch(option))
    return key("type", "boolean") + key("default", value == "True" ? "true" : "false");
  const bool has_choices =
      option.kind == ValueKind::kChoice || option.kind == ValueKind::kModelName;
  return key("type", "string") + key("default", quoted(value)) +
         (has_choices ? choices(option) : "");
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
  return joined(option.choices, "").find(' ') != std::string::npos;
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
  using enum Canvas;
  const Canvas canvas = option.canvas;
  if (canvas == kModelIn || canvas == kModelFileIn || canvas == kModelOut) return "Model";
  if (canvas == kDataIn || canvas == kDataOut) return "Dataset";
  if (option.kind == ValueKind::kInteger) return "Integer";
  if (is_number(option)) return "Float";
  return is_switch(option) ? "Boolean" : "String";
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

// ---- schema, table ----

Json integer_type(const Option& option) {
  Json type = {{"type", "integer"}};
  if (option.minimum != kLowest) {
    type["minimum"] = option.minimum;
    type["maximum"] = option.maximum;
  }
  return type;
}

Json pattern(const std::string& expression) {
  return {{"type", "string"}, {"pattern", expression}};
}

Json number_type(const Option& option) {
  return {{"type", "number"}, {"exclusiveMinimum", option.minimum}, {"maximum", option.maximum}};
}

Json schema_of(const Option& option) {
  switch (option.kind) {
    case ValueKind::kInteger:
      return integer_type(option);
    case ValueKind::kAutoOrInteger:
      return {{"anyOf", {Json{{"const", "auto"}}, integer_type(option)}}};
    case ValueKind::kCropSize:
      return {{"anyOf", {Json{{"enum", Json::array({"auto", "larger"})}}, integer_type(option)}}};
    case ValueKind::kNumberFrom:
      return {{"type", "number"}, {"minimum", option.minimum}, {"maximum", option.maximum}};
    case ValueKind::kNumber:
      return number_type(option);
    case ValueKind::kChoice:
    case ValueKind::kModelName: {
      Json choices = option.choices;  // in YAML a 1 without quotes is a number
      for (const std::string& choice : option.choices)
        if (choice.find_first_not_of("0123456789") == choice.npos)
          choices.push_back(std::stoi(choice));
      return {{"enum", choices}};
    }
    case ValueKind::kChoiceOrNumber:
      return {{"anyOf", {Json{{"enum", option.choices}}, number_type(option)}}};
    case ValueKind::kCountedChoice:
      return pattern("^(" + joined(option.choices, "|") + "(:[0-9]+)?)$");
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
    case ValueKind::kFlag:
      return {{"type", "boolean"}};
    case ValueKind::kShare:
      return {{"anyOf",
               {Json{{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}},
                pattern("^[0-9]+(\\.[0-9]+)?%?$")}}};
    case ValueKind::kAllowance:
      return {{"anyOf", {integer_type(option), pattern("^(auto|[0-9]+(\\.[0-9]+)?%)$")}}};
    case ValueKind::kEvery: {
      const std::string item = "[0-9]+(epochs?|steps?|s|min|h)";
      return pattern("^" + item + "(," + item + ")*$");
    }
    case ValueKind::kAugment: {
      std::string step;
      for (const std::string_view name : kAugmentStepNames)
        step += (step.empty() ? "(" : "|") + std::string(name);
      step += ")";
      return pattern("^(none|standard|strong|" + step + "(," + step + ")*)$");
    }
    case ValueKind::kDuration:
      return pattern("^[0-9]+(s|min|h)$");
    case ValueKind::kImageSize:
      return {{"anyOf", {integer_type(option), pattern("^\\[ *[0-9]+ *, *[0-9]+ *\\]$")}}};
    case ValueKind::kText:
    case ValueKind::kPath:
      return {{"type", "string"}, {"minLength", 1}};
  }
  return {};
}

Json default_of(const Option& option) {
  const std::string& text = option.default_text;
  if (is_switch(option)) return text == "True";
  const bool is_number = Json::accept(text) && Json::parse(text).is_number();
  return is_number ? Json::parse(text) : Json(text);
}

// Returns a regular expression for the name, in which `_` may replace `-`.
std::string pattern_of(const std::string& name) {
  std::string pattern = "^";
  for (const char letter : name) pattern += letter == '-' ? "[-_]" : std::string(1, letter);
  return pattern + "$";
}

// Escapes pipe characters, which would end the table cell.
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
  return option.default_text.empty() ? "" : "`" + cell(option.default_text) + "`";
}

}  // namespace

const std::vector<ComponentInfo>& component_table() {
  static const std::vector<ComponentInfo> kTable = [] {
    std::vector<ComponentInfo> table;
    for (CommandInfo command : command_table()) {
      for (Option& option : command.options)
        if (!option.port_name.empty()) option.name = option.port_name;
      if (has_output(command)) table.push_back({command.name, command.summary, command});
    }
    table.push_back(fine_tune());
    return table;
  }();
  return kTable;
}

const ComponentInfo* find_component(std::string_view name) {
  return find_named(component_table(), name);
}

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
      "# Printed by `kiln describe --format component`.\n$schema: "
      "https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json\ntype: command\n";
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
  if (!range.empty() && !is_switch(option)) text += " Range: " + range + ".";
  if (!option.unit.empty()) text += " Unit: " + option.unit + ".";
  return text;
}

std::string canvas_name(const std::string& name) {
  std::string text = name;
  std::ranges::replace_if(
      text, [](char c) { return c == '-' || c == ' '; }, '_');
  return text;
}

std::string canvas_default(const Option& option) {
  if (!option.default_text.empty() || option.choices.empty()) return option.default_text;
  return option.choices.front();
}

std::string kubeflow_component(const ComponentInfo& component, const ComponentFacts& facts) {
  std::string inputs, outputs, arguments;
  for (const Option& option : component.command.options) {
    using enum Canvas;
    const Canvas canvas = option.canvas;
    const auto pass = [&](std::string& ports, const std::string& how) {
      ports += port(option);
      arguments += argument(option, "{" + how + ": " + canvas_name(option.name) + "}");
    };
    // Not the checkpoints: Kubeflow keeps outputs only of steps that succeed.
    if (canvas == kParameter) pass(inputs, "inputValue");
    if (canvas == kModelIn || canvas == kModelFileIn || canvas == kDataIn)
      pass(inputs, "inputPath");
    if (canvas == kModelOut || canvas == kDataOut) pass(outputs, "outputPath");
    if (canvas == kRanksOfHost) arguments += argument(option, "auto");
    if (canvas == kKubeflowRun) {
      outputs += "- name: metrics\n  type: Metrics\n  description: \"Metrics of the run.\"\n";
      arguments += argument(option, "{executorInput: null}");
    }
  }
  std::string text = "# Printed by `kiln describe --format kubeflow`.\n";
  text += "name: " + quoted("Kiln " + component.name) +
          "\ndescription: " + quoted(component.summary) +
          "\nmetadata:\n  annotations:\n    version: " + quoted(facts.version) + "\n";
  text += "inputs:\n" + inputs + "outputs:\n" + outputs;
  std::string words = component.command.name;  // as items of a YAML list: "transform, init"
  if (const std::size_t space = words.find(' '); space != words.npos) words.replace(space, 1, ", ");
  return text + "implementation:\n  container:\n    image: " + quoted(facts.image) +
         "\n    command: [kiln, " + words + "]\n    args:\n" + arguments;
}

std::string json_schema(const CommandInfo& command) {
  Json properties = Json::object();
  Json other_spellings = Json::object();
  for (const Option& option : command.options) {
    if (option.name == "config") continue;
    Json property = schema_of(option);
    if (!option.default_text.empty()) property["default"] = default_of(option);
    std::string text = option.help;
    if (!option.unit.empty()) text += " Unit: " + option.unit + ".";
    property["description"] = text;
    properties[option.name] = property;
    if (option.name.find('-') != std::string::npos)
      other_spellings[pattern_of(option.name)] = {{"$ref", "#/properties/" + option.name}};
  }
  const Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                       {"title", "kiln " + command.name},
                       {"description", command.summary},
                       {"type", "object"},
                       {"properties", properties},
                       {"patternProperties", other_spellings},
                       {"additionalProperties", false}};
  return schema.dump(2) + "\n";
}

std::string options_markdown(const CommandInfo& command) {
  const auto& options = command.options;
  const bool resumes =
      std::ranges::any_of(options, [](auto& option) { return option.effect.has_value(); });
  std::string text = std::string("| Option | Default | Range | Unit |") +
                     (resumes ? " On resume |" : "") + " Meaning |\n|---|---|---|---|" +
                     (resumes ? "---|" : "") + "---|\n";
  for (const Option& option : options) {
    text += "| `--" + option.name + "` | " + default_cell(option) + " | " +
            cell(range_text(option)) + " | " + cell(option.unit) + " | ";
    constexpr const char* kEffects[] = {"free", "bits", "result"};
    if (option.effect)
      text += std::string(kEffects[static_cast<std::size_t>(*option.effect)]) + " | ";
    text += cell(option.help) + " |\n";
  }
  return text;
}

}  // namespace kiln
