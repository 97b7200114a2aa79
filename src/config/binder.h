// From names and texts to values, for the functions that fill the structs of run_config.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "config/raw.h"

namespace kiln {

// Reads options by name: what was given, or else the default. Faults are collected in `raw`, which
// must outlive this; a value at fault is empty or 0. A name is one of the command's options.
class Binder {
 public:
  // Required options that were not given are faults already.
  Binder(const CommandInfo& command, RawArguments& raw);

  std::string path(const char* name);
  std::vector<std::string> paths(const char* name);  // of a repeatable option, in their order
  std::int64_t integer(const char* name);
  int small_integer(const char* name);
  double number(const char* name);
  bool boolean(const char* name);
  Allowance allowance(const char* name);
  RateScaling rate_scaling(const char* name);
  std::string choice(const char* name);

  // Options that several commands have.
  Augment augment();
  DeviceChoice device();
  std::optional<int> ranks();  // 0: auto; empty: not given
  bool plain();                // or NO_COLOR, by the convention of https://no-color.org

  bool given(const char* name) const { return raw_.find(name) != nullptr; }

  void fault(const char* name, ErrorCode code, const std::string& message);
  // The Error that `check` throws becomes a fault of this option.
  template <typename Check>
  void check(const char* name, Check&& check) {
    raw_.faults.collect(position(name), check);
  }

  // Every option and its text, in table order.
  std::vector<std::pair<std::string, std::string>> effective_options() const;
  const std::string& overridden() const { return raw_.overridden; }
  const std::vector<std::string>& words() const { return raw_.words; }

 private:
  template <typename Value>
  Value read(const char* name,
             Value (*parse)(const Option&, const std::string& text, const std::string& where));
  int position(const char* name) const;
  void report_if_missing(const Option& option);

  const CommandInfo& command_;
  RawArguments& raw_;
};

}  // namespace kiln
