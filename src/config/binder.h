// From names and texts to values, for the functions of bind.cpp that fill the structs.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "config/raw.h"
#include "config/values.h"

namespace kiln {

// Reads options by name, from what was given or from the default; faults are collected.
class Binder {
 public:
  Binder(const CommandInfo& command, RawArguments& raw) : command_(command), raw_(raw) {
    for (const Option& option : command.options) report_if_missing(option);
  }

  std::string path(const char* name) {
    std::string value;
    read(name, [&](const Option&, const std::string& text, const std::string& where) {
      value = path_value(text, where);
    });
    return value;
  }

  // Of a repeatable option, in their order.
  std::vector<std::string> paths(const char* name) {
    std::vector<std::string> values;
    for (const RawValue& value : raw_.values)
      if (value.option->name == name)
        raw_.faults.collect(value.position,
                            [&] { values.push_back(path_value(value.text, value.where)); });
    return values;
  }

  std::int64_t integer(const char* name) {
    std::int64_t value = 0;
    read(name, [&](const Option& option, const std::string& text, const std::string& where) {
      value = integer_value(option, text, where);
    });
    return value;
  }

  int small_integer(const char* name) { return static_cast<int>(integer(name)); }

  double number(const char* name) {
    double value = 0;
    read(name, [&](const Option& option, const std::string& text, const std::string& where) {
      value = number_value(option, text, where);
    });
    return value;
  }

  bool boolean(const char* name) {
    bool value = false;
    read(name, [&](const Option&, const std::string& text, const std::string& where) {
      value = boolean_value(text, where);
    });
    return value;
  }

  Allowance allowance(const char* name) {
    Allowance value;
    read(name, [&](const Option& option, const std::string& text, const std::string& where) {
      value = allowance_value(option, text, where);
    });
    return value;
  }

  RateScaling rate_scaling(const char* name) {
    RateScaling value;
    read(name, [&](const Option& option, const std::string& text, const std::string& where) {
      value = rate_scaling_value(option, text, where);
    });
    return value;
  }

  std::string choice(const char* name) {
    std::string value;
    read(name, [&](const Option& option, const std::string& text, const std::string& where) {
      value = choice_value(option, text, where);
    });
    return value;
  }

  bool given(const char* name) const { return raw_.find(name) != nullptr; }

  int position(const char* name) const {
    const RawValue* value = raw_.find(name);
    return value == nullptr ? kMissingPosition : value->position;
  }

  void fault(const char* name, ErrorCode code, const std::string& message) {
    raw_.faults.add(position(name), Error(code, message));
  }

  // The Error that `check` throws becomes a fault of this option.
  template <typename Check>
  void check(const char* name, Check&& check) {
    raw_.faults.collect(position(name), check);
  }

  std::vector<std::pair<std::string, std::string>> effective_options() const {
    std::vector<std::pair<std::string, std::string>> options;
    for (const Option& option : command_.options) {
      const RawValue* value = raw_.find(option.name);
      options.emplace_back(option.name, value == nullptr ? option.default_text : value->text);
    }
    return options;
  }

  const std::string& overridden() const { return raw_.overridden; }

  void throw_if_any() const { raw_.faults.throw_if_any(); }

 private:
  void report_if_missing(const Option& option) {
    const auto& mentioned = raw_.mentioned;
    if (!option.required ||
        std::find(mentioned.begin(), mentioned.end(), &option) != mentioned.end()) {
      return;
    }
    std::string purpose = option.help;
    if (purpose.ends_with('.')) purpose.pop_back();
    raw_.faults.add(kMissingPosition, Error(ErrorCode::kParameterParsing,
                                            "--" + option.name + " " + option.value_name +
                                                " is missing (" + purpose + "): give it."));
  }

  // Calls `use` with the text that was given, or else with the default where there is one.
  template <typename Use>
  void read(const char* name, Use&& use) {
    const Option& option = *find_option(command_, name);
    if (const RawValue* value = raw_.find(name)) {
      raw_.faults.collect(value->position, [&] {
        refuse_placeholder(value->text, value->where);
        use(option, value->text, value->where);
      });
    } else if (!option.default_text.empty()) {
      use(option, option.default_text, "--" + option.name);
    }
  }

  const CommandInfo& command_;
  RawArguments& raw_;
};

}  // namespace kiln
