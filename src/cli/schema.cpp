#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "base/text.h"
#include "cli/describe.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

Json integer_type(const Option& option) {
  Json type = {{"type", "integer"}};
  if (option.minimum != std::numeric_limits<std::int64_t>::min()) {
    type["minimum"] = option.minimum;
    type["maximum"] = option.maximum;
  }
  return type;
}

Json number_type(const Option& option) {
  return {{"type", "number"}, {"exclusiveMinimum", option.minimum}, {"maximum", option.maximum}};
}

Json type_of(const Option& option) {
  switch (option.kind) {
    case ValueKind::kInteger:
      return integer_type(option);
    case ValueKind::kAutoOrInteger:
      return {{"anyOf", {Json{{"const", "auto"}}, integer_type(option)}}};
    case ValueKind::kTrainingSize:
      return {{"anyOf",
               {Json{{"const", "auto"}}, integer_type(option),
                Json{{"type", "string"}, {"pattern", "^[0-9]+:[0-9]+$"}}}}};
    case ValueKind::kCropSize:
      return {{"anyOf", {Json{{"enum", Json::array({"auto", "larger"})}}, integer_type(option)}}};
    case ValueKind::kNumberFrom:
      return {{"type", "number"}, {"minimum", option.minimum}, {"maximum", option.maximum}};
    case ValueKind::kNumber:
      return number_type(option);
    case ValueKind::kChoice:
    case ValueKind::kModelName:
      return {{"enum", option.choices}};
    case ValueKind::kChoiceOrNumber:
      return {{"anyOf", {Json{{"enum", option.choices}}, number_type(option)}}};
    case ValueKind::kCountedChoice:
      return {{"type", "string"}, {"pattern", "^(" + joined(option.choices, "|") + "(:[0-9]+)?)$"}};
    case ValueKind::kBoolean:
    case ValueKind::kSwitch:
    case ValueKind::kFlag:
      return {{"type", "boolean"}};
    case ValueKind::kShare:
      return {{"anyOf",
               {Json{{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", 1}},
                Json{{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?%?$"}}}}};
    case ValueKind::kAllowance:
      return {
          {"anyOf",
           {integer_type(option), Json{{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?%$"}}}}};
    case ValueKind::kEvery: {
      const std::string item = "[0-9]+(epochs?|steps?|s|min|h)";
      return {{"type", "string"}, {"pattern", "^" + item + "(," + item + ")*$"}};
    }
    case ValueKind::kAugment: {
      std::string step;
      for (const std::string_view name : kAugmentStepNames)
        step += (step.empty() ? "(" : "|") + std::string(name);
      step += ")";
      return {{"type", "string"},
              {"pattern", "^(none|standard|strong|" + step + "(," + step + ")*)$"}};
    }
    case ValueKind::kDuration:
      return {{"type", "string"}, {"pattern", "^[0-9]+(s|min|h)$"}};
    case ValueKind::kImageSize:
      return {{"anyOf",
               {integer_type(option),
                Json{{"type", "string"}, {"pattern", "^\\[ *[0-9]+ *, *[0-9]+ *\\]$"}}}}};
    case ValueKind::kPath:
      return {{"type", "string"}, {"minLength", 1}};
  }
  return {};
}

Json default_of(const Option& option) {
  const std::string& text = option.default_text;
  if (option.kind == ValueKind::kBoolean || option.kind == ValueKind::kSwitch)
    return text == "True";
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

std::string effect_cell(Effect effect) {
  switch (effect) {
    case Effect::kFree:
      return "free";
    case Effect::kBits:
      return "bits";
    case Effect::kResult:
      return "result";
  }
  return "";
}

std::string default_cell(const Option& option) {
  if (option.required) return "(required)";
  if (option.default_text.empty()) return "";
  std::string text = "`";
  text += cell(option.default_text);
  return text += '`';
}

}  // namespace

std::string json_schema(const CommandInfo& command) {
  Json properties = Json::object();
  Json other_spellings = Json::object();
  for (const Option& option : command.options) {
    if (option.name == "config") continue;
    Json property = type_of(option);
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
  const bool resumes = std::any_of(options.begin(), options.end(),
                                   [](const Option& option) { return option.effect.has_value(); });
  std::string text = std::string("| Option | Default | Range | Unit |") +
                     (resumes ? " On resume |" : "") + " Meaning |\n|---|---|---|---|" +
                     (resumes ? "---|" : "") + "---|\n";
  for (const Option& option : options) {
    text += "| `--" + option.name + "` | " + default_cell(option) + " | " +
            cell(range_text(option)) + " | " + cell(option.unit) + " | ";
    if (option.effect) text += effect_cell(*option.effect) + " | ";
    text += cell(option.help) + " |\n";
  }
  return text;
}

}  // namespace kiln
