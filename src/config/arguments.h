// Between argv and the structs: which option was given which text, and what was wrong with the way
// it was given.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "config/run_config.h"

namespace kiln {

struct RawValue {
  const Option* option = nullptr;
  std::string text;
  std::string where;  // begins a message: "--epochs", "--epochs (line 3 of 'run.yaml')"
  int position = 0;   // orders messages: place on the command line, then lines of the file
};

// Faults with their place, so that they can be shown in the order of the command line.
class Faults {
 public:
  void add(int position, Error error) { faults_.push_back({position, std::move(error)}); }
  template <typename Check>
  void collect(int position, Check&& check) {
    try {
      check();
    } catch (const Error& error) {
      add(position, error);
    }
  }
  // In the order they are told: errors of exit 2 first, then the others, each in order of position.
  Problems problems() const;

 private:
  struct Fault {
    int position;
    Error error;
  };
  std::vector<Fault> faults_;
};

struct RawArguments {
  std::vector<std::string> words;        // what was parsed, from the command's name on
  std::vector<RawValue> values;          // each option at most once, but repeatable ones
  std::vector<const Option*> mentioned;  // given, perhaps with a bad value; not missing
  Faults faults;
  std::string overridden;  // what flags override of the --config file: a sentence, no full stop
  bool help = false;

  const RawValue* find(std::string_view option_name) const;
};

// Positions of faults that are nowhere on the command line.
constexpr int kConfigFilePosition = 1'000'000;
constexpr int kMissingPosition = 2'000'000'000;

// `words` begin with the command's name. Never throws for what a user typed.
RawArguments parse_arguments(const CommandInfo& command, const std::vector<std::string>& words);

// Adds what the file at `path` says to `raw`, except where a flag said so before.
void read_config_file(const CommandInfo& command, const std::string& path, RawArguments& raw);

// The faults of several parts as one list, each fault once: errors of exit 2 first, then the
// others, each in the order of the parts.
Problems joined(const std::vector<Problems>& parts);

std::string general_help();
std::string command_help(const CommandInfo& command);

}  // namespace kiln
