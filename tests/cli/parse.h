// Parses a command line and returns its parts.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/command_line.h"

namespace kiln {

using Words = std::vector<std::string>;

// The four paths that `kiln train` requires, then `more`.
inline Words train(const Words& more = {}) {
  Words words = {"train", "--untrained-model-path", "u", "--train-data-path",
                 "t",     "--valid-data-path",      "v", "--trained-model-path",
                 "o"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline Words init_model(const Words& more) {
  Words words = {"init-model", "--untrained-model-path", "u"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Throws the faults, if any.
template <typename Config>
Config parse_as(const Words& words) {
  const Invocation invocation = parse_command_line(words);
  invocation.problems.throw_if_any();
  return std::get<Config>(invocation.command);
}

inline std::vector<Error> faults(const Words& words) {
  return parse_command_line(words).problems.errors();
}

// The folder of the error_info.json to be written; empty: none.
inline std::string log_path(const Words& words) {
  return parse_command_line(words).log_path;
}

// The single fault of a command line; otherwise a text that no test expects.
inline std::string fault(const Words& words, ErrorCode* code = nullptr) {
  const std::vector<Error> all = faults(words);
  if (all.empty()) return "no fault";
  if (code != nullptr) *code = all.front().code();
  if (all.size() == 1) return all.front().message();
  std::string text = "several faults:";
  for (const Error& error : all) text += "\n" + error.message();
  return text;
}

}  // namespace kiln
