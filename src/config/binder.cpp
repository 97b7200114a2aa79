#include "config/binder.h"

#include <algorithm>
#include <cstdlib>

#include "config/values.h"

namespace kiln {

Binder::Binder(const CommandInfo& command, RawArguments& raw) : command_(command), raw_(raw) {
  for (const Option& option : command.options) report_if_missing(option);
}

template <typename Value>
Value Binder::read(const char* name, Value (*parse)(const Option&, const std::string& text,
                                                    const std::string& where)) {
  const Option& option = *find_option(command_, name);
  Value result{};
  if (const RawValue* value = raw_.find(name)) {
    raw_.faults.collect(value->position, [&] {
      refuse_placeholder(value->text, value->where);
      result = parse(option, value->text, value->where);
    });
  } else if (!option.default_text.empty()) {
    result = parse(option, option.default_text, "--" + option.name);
  }
  return result;
}

std::string Binder::path(const char* name) {
  return read<std::string>(name, [](const Option&, const std::string& text,
                                    const std::string& where) { return path_value(text, where); });
}

std::vector<std::string> Binder::paths(const char* name) {
  std::vector<std::string> values;
  for (const RawValue& value : raw_.values)
    if (value.option->name == name)
      raw_.faults.collect(value.position,
                          [&] { values.push_back(path_value(value.text, value.where)); });
  return values;
}

std::int64_t Binder::integer(const char* name) {
  return read<std::int64_t>(name, integer_value);
}

int Binder::small_integer(const char* name) {
  return static_cast<int>(integer(name));
}

double Binder::number(const char* name) {
  return read<double>(name, number_value);
}

bool Binder::boolean(const char* name) {
  return read<bool>(name, [](const Option&, const std::string& text, const std::string& where) {
    return boolean_value(text, where);
  });
}

Allowance Binder::allowance(const char* name) {
  return read<Allowance>(name, allowance_value);
}

RateScaling Binder::rate_scaling(const char* name) {
  return read<RateScaling>(name, rate_scaling_value);
}

std::string Binder::choice(const char* name) {
  return read<std::string>(name, choice_value);
}

Augment Binder::augment() {
  return augment_named(choice("augment")).value_or(Augment::kNone);
}

DeviceChoice Binder::device() {
  const std::string word = choice("device");
  if (word == "cuda") return DeviceChoice::kCuda;
  return word == "cpu" ? DeviceChoice::kCpu : DeviceChoice::kAuto;
}

std::optional<int> Binder::ranks() {
  const int ranks = small_integer("ranks");
  return given("ranks") ? std::optional(ranks) : std::nullopt;
}

bool Binder::plain() {
  const char* no_color = std::getenv("NO_COLOR");
  return boolean("plain") || (no_color != nullptr && *no_color != '\0');
}

void Binder::fault(const char* name, ErrorCode code, const std::string& message) {
  raw_.faults.add(position(name), Error(code, message));
}

std::vector<std::pair<std::string, std::string>> Binder::effective_options() const {
  std::vector<std::pair<std::string, std::string>> options;
  for (const Option& option : command_.options) {
    const RawValue* value = raw_.find(option.name);
    options.emplace_back(option.name, value == nullptr ? option.default_text : value->text);
  }
  return options;
}

int Binder::position(const char* name) const {
  const RawValue* value = raw_.find(name);
  return value == nullptr ? kMissingPosition : value->position;
}

void Binder::report_if_missing(const Option& option) {
  const auto& mentioned = raw_.mentioned;
  if (!option.required || std::find(mentioned.begin(), mentioned.end(), &option) != mentioned.end())
    return;
  std::string purpose = option.help;
  if (purpose.ends_with('.')) purpose.pop_back();
  raw_.faults.add(kMissingPosition, Error(ErrorCode::kParameterParsing,
                                          "--" + option.name + " " + option.value_name +
                                              " is missing (" + purpose + "): give it."));
}

}  // namespace kiln
