// The stage between argv and the structs: the text given for each option, and the faults found in
// it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/run_config.h"

namespace kiln {

struct RawValue {
  const Option* option = nullptr;
  std::string text;
  std::string where;  // starts every message: "--epochs", "--epochs (line 3 of 'run.yaml')"
  int position = 0;   // orders messages: place on the command line, then lines of the file
};

// Faults with their positions, so that they can be reported in command-line order.
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
  // In reporting order: errors with exit code 2 first, then the others, each by position.
  Problems problems() const;

 private:
  struct Fault {
    int position;
    Error error;
  };
  std::vector<Fault> faults_;
};

struct RawArguments {
  std::vector<std::string> words;        // the parsed words, starting with the command's name
  std::vector<RawValue> values;          // each option at most once, except repeatable ones
  std::vector<const Option*> mentioned;  // given, even if with an invalid value
  Faults faults;
  std::string
      overridden;  // settings of the --config file overridden by flags; one sentence, no full stop
  bool help = false, help_all = false;  // --help, and --help all

  const RawValue* find(std::string_view option_name) const;
};

// Positions of faults that are not on the command line.
constexpr int kConfigFilePosition = 1'000'000;
constexpr int kMissingPosition = 2'000'000'000;

// `words` start with the command's name. Never throws because of what the user typed.
RawArguments parse_arguments(const CommandInfo& command, const std::vector<std::string>& words);

// Adds the settings in the file at `path` to `raw`, except those set by a flag.
void read_config_file(const CommandInfo& command, const std::string& path, RawArguments& raw);

// Merges several lists of faults into one without duplicates: errors with exit code 2 first, then
// the others, each in the order of `parts`.
Problems merged(const std::vector<Problems>& parts);

std::string general_help();
// The options of a command's first screen, or with `all` every one.
std::string command_help(const CommandInfo& command, bool all);

}  // namespace kiln
