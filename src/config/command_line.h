// argv -> a command. One table (options.cpp) lists every option with type, range, default, unit and
// help; parsing, range checks, `--help` and the tables of docs/ come from it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/run_config.h"

namespace kiln {

// A parsed command line. Inputs and outputs have not been checked.
struct Invocation {
  Command command;       // must not be run if there are problems
  Problems problems;     // all faults of the command line: errors of exit 2 before the others
  std::string log_path;  // where error_info.json must be written, whatever happens; empty: nowhere
  bool log_path_given = false;  // else it is the default
};

// `arguments` without the program's name. Never throws for what a user typed.
Invocation parse_command_line(const std::vector<std::string>& arguments);

}  // namespace kiln
