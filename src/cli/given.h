// The text given for each option, and the faults found in it: the stage between the words of a
// command line and the structs.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/run_config.h"
#include "cli/settings.h"

namespace kiln {

// Its reason says which line of a file, or which option, it is from.
struct GivenValue : Setting {
  int position = 0;  // orders messages: place on the command line, then lines of the file
  const std::string& name() const { return option->name; }
  // Starts every message: "--epochs", "--epochs (line 3 of 'run.yaml')".
  std::string where() const;
};

// Positions of faults that are not on the command line.
constexpr int kConfigFilePosition = 1'000'000;
constexpr int kMissingPosition = 2'000'000'000;

// What is given for the options of a command. An option that it does not have is never given; only
// what imply() gives must be one of its options.
struct Given {
  const CommandInfo& command;
  std::vector<std::string> words = {};        // the parsed words, starting with the command's name
  std::vector<GivenValue> values = {};        // each option at most once, except repeatable ones
  std::vector<const Option*> mentioned = {};  // even if with an invalid value
  std::vector<std::pair<int, Error>> faults = {};  // with their positions
  BucketFolders copies = {};                       // of the buckets that are given
  std::vector<std::string> buckets = {};           // without one
  bool has_bare_path = false;                      // of an optional path, whose name was omitted
  bool help = false;                               // --help
  std::string help_word = {};                      // the word after it

  // Adds a value, with its paths as place_of() says, or the fault of that.
  void add(const GivenValue& value);
  // A path of an option as local_path() reads it, or that of a bucket's copy. Throws
  // std::invalid_argument, with a clause.
  std::string place_of(const Option& option, const std::string& path);
  const GivenValue* find(std::string_view name) const;  // nullptr if not given
  GivenValue* find(std::string_view name);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  bool mentions(std::string_view name) const;  // see `mentioned`
  void mention_all();                          // so that none is reported as missing
  // Whether the option is given with this value; an empty `text` is any value but the default.
  bool is_set(const char* name, const std::string& text) const;

  // Calls `take(text, where)` for each value given for option `name`, in order. Errors that it
  // throws become faults.
  template <typename Take>
  void read(std::string_view name, Take take) {
    for (const GivenValue& value : values)
      if (value.name() == name) check(value.position, [&] { take(value.text, value.where()); });
  }

  // Unless option `name` is given, treats it as given with the value `text`, or as set by the
  // option `by`, which is given.
  void imply(std::string_view name, const std::string& text, const char* by = "",
             Origin origin = Origin::kGiven);

  int position(std::string_view name) const;
  void fault(int position, const std::string& message,
             ErrorCode code = ErrorCode::kParameterParsing);
  void fault(const char* name, const std::string& message,
             ErrorCode code = ErrorCode::kParameterParsing);
  // The same, of a message that begins with the option's name: `what` is what follows "--name ".
  void refuse(const std::string& name, const std::string& what,
              ErrorCode code = ErrorCode::kParameterParsing) {
    fault(position(name), "--" + name + " " + what, code);
  }
  // Turns an Error thrown by `function` into a fault.
  template <typename Function>
  void check(int position, Function&& function) {
    try {
      function();
    } catch (const Error& error) {
      faults.emplace_back(position, error);
    }
  }
  // Adds a fault to option `output` if its path is inside, contains or is one of the `inputs`: it
  // would be read as data, or would overwrite it.
  void keep_apart(const char* output, const std::vector<const char*>& inputs);
  void report_missing();  // required options

  // URLs are without parts that may be secret; those of buckets stand for their copies.
  Settings settings() const;
  // In reporting order: errors with exit code 2 first, then the others, each by position.
  Problems problems() const;
};

// Merges several lists of faults into one without duplicates: errors with exit code 2 first, then
// the others, each in the order of `parts`.
Problems merged(const std::vector<Problems>& parts);

}  // namespace kiln
