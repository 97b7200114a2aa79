#include "cli/rows.h"

#include <stdexcept>

#include "base/files.h"
#include "base/path_pattern.h"
#include "model/catalogue.h"

namespace kiln {
namespace {

std::string same_text(const Option& /*option*/, const std::string& text) {
  return text;
}

std::string boolean_text(const Option& option, const bool& value) {
  if (option.kind == ValueKind::kFlag) return "";
  return value ? "True" : "False";
}

Reader<bool> boolean(ValueKind kind, std::string value_name) {
  return {{.value_name = std::move(value_name), .kind = kind}, boolean_value, boolean_text};
}

}  // namespace

void mark(Option& option, Mark what) {
  switch (what) {
    case Mark::kPositional:
      option.required = option.positional = true;
      return;
    case Mark::kOfRecipe:
      option.is_of_recipe = true;
      return;
    case Mark::kNotRepeated:
      option.is_repeated = false;
      return;
    case Mark::kMayDiffer:
      option.may_differ = true;
      return;
    case Mark::kFirst:
      option.is_on_first_screen = true;
      return;
  }
}

void mark(Option& option, Effect effect) {
  option.effect = effect;
}

void mark(Option& option, Canvas role) {
  option.canvas = role;
}

Range from(std::int64_t minimum, std::int64_t maximum, std::string unit) {
  return {ValueKind::kInteger, minimum, maximum, std::move(unit)};
}

Range above_zero(std::int64_t maximum) {
  return {ValueKind::kNumber, 0, maximum};
}

Range auto_or(std::int64_t minimum, std::int64_t maximum, std::string unit) {
  return {ValueKind::kAutoOrInteger, minimum, maximum, std::move(unit)};
}

Reader<std::string> path(std::string value_name) {
  return {{.value_name = std::move(value_name)}, path_value, same_text};
}

Reader<std::string> regular_expression() {
  return {{.value_name = "REGEX"},
          [](const Option& option, const std::string& text, const std::string& where) {
            std::string pattern = path_value(option, text, where);
            try {
              const PathPattern valid(pattern);
            } catch (const std::invalid_argument& fault) {
              throw Error(ErrorCode::kParameterParsing,
                          where + " " + quoted_path(pattern) +
                              " cannot be used as a regular expression: " + fault.what() +
                              ". An example is '(patient[0-9]+)_'.");
            }
            return pattern;
          },
          same_text};
}

Reader<std::string> one_of(std::vector<std::string> choices) {
  std::string value_name;
  for (const std::string& choice : choices) value_name += (value_name.empty() ? "" : "|") + choice;
  return {{.value_name = std::move(value_name),
           .kind = ValueKind::kChoice,
           .choices = std::move(choices)},
          choice_value,
          same_text};
}

Reader<std::string> network_name() {
  return {{.value_name = "MODEL", .kind = ValueKind::kModelName, .choices = network_names()},
          choice_value,
          same_text};
}

Reader<bool> true_or_false() {
  return boolean(ValueKind::kBoolean, "True|False");
}

Reader<bool> on_off() {
  return boolean(ValueKind::kSwitch, "[True|False]");
}

Reader<bool> flag() {
  return boolean(ValueKind::kFlag, "");
}

Reader<double> share(std::string value_name) {
  return {
      {.value_name = std::move(value_name), .kind = ValueKind::kShare}, share_value, number_text};
}

Reader<Allowance> allowance() {
  return {{.value_name = "N|N%",
           .unit = "images, or percent of a dataset",
           .kind = ValueKind::kAllowance,
           .maximum = 1000 * kMillion},
          allowance_value,
          allowance_text};
}

Reader<Augment> augmentation() {
  return {{.value_name = "none|flip|standard|strong|LIST", .kind = ValueKind::kAugment},
          augment_value,
          [](const Option&, const Augment& value) { return augment_name(value); }};
}

}  // namespace kiln
