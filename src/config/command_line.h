// argv -> the command that it names. One table (options.cpp) lists every option with type, range,
// default, unit and help; parsing, range checks, `--help` and tables of docs/ come
// from it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/run_config.h"

namespace kiln {

// What a command line asks for. Inputs and outputs have not been looked at.
struct Invocation {
  Command command;       // not to be run with problems
  Problems problems;     // all faults of the command line: errors of exit 2 before the others
  std::string log_path;  // of the error_info.json that is owed, whatever happens; empty: none is
};

// `arguments` without the program's name. Throws nothing for what a user typed.
Invocation parse_command_line(const std::vector<std::string>& arguments);

}  // namespace kiln
