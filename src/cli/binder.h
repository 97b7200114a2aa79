// The given options while a command's struct is filled, for the functions that check several of
// them together.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/options.h"
#include "cli/run_config.h"

namespace kiln {

// Faults are collected in `raw`, which must outlive the binder. Each name must be an option of the
// command.
class Binder {
 public:
  // Records missing required options as faults.
  Binder(const CommandInfo& command, RawArguments& raw);

  // Calls `take(text, where)` for each value given for option `name`, in order. Errors that it
  // throws become faults.
  template <typename Take>
  void read(std::string_view name, Take take) {
    for (const RawValue& value : raw_.values)
      if (value.option->name == name)
        raw_.faults.collect(value.position, [&] { take(value.text, value.where); });
  }

  bool given(std::string_view name) const { return raw_.find(name) != nullptr; }
  // Whether the option is given with this value; an empty `text` is any value but the default.
  bool is_set(const char* name, const std::string& text) const;

  // Unless option `name` is given, treats it as given with the value `text`, because of option
  // `by`, which is given.
  void imply(const char* name, const std::string& text, const char* by);

  void fault(const char* name, ErrorCode code, const std::string& message);
  // Turns an Error thrown by `check` into a fault of this option.
  template <typename Check>
  void check(const char* name, Check&& check) {
    raw_.faults.collect(position(name), check);
  }

  // Every option and its text, in table order. URLs are shown without parts that may be secret.
  OptionTexts effective_options() const;
  const std::string& overridden() const { return raw_.overridden; }
  const std::vector<std::string>& words() const { return raw_.words; }

 private:
  int position(const char* name) const;
  void report_if_missing(const Option& option);

  const CommandInfo& command_;
  RawArguments& raw_;
};

// Checks that folders on the command line do not overlap.

// Also true if both are the same folder. The paths need not exist; an empty path is inside nothing.
bool lies_inside(const std::string& inner, const std::string& outer);

// A sentence if the output is inside, contains or is the input; otherwise empty.
std::string overlap_of(const char* output_name, const std::string& output, const char* input_name,
                       const std::string& input);

// Adds a fault to option `output_name` if the output is inside, contains or is the input: it would
// be read as data, or would overwrite it.
void require_apart(Binder& binder, const char* output_name, const std::string& output,
                   const char* input_name, const std::string& input);

}  // namespace kiln
