// Parses argv into a command. A single table (options.cpp) lists every option with its type, range,
// default, unit and help; parsing, range checks, `--help` and the tables in docs/ are derived from
// it.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/paths.h"
#include "cli/run_config.h"

namespace kiln {

// A parsed command line. Inputs and outputs have not been checked.
struct Invocation {
  Command command;                 // must not be run if there are any problems
  Problems problems = {};          // all faults of the command line, those with exit code 2 first
  std::string log_path = {};       // where error_info.json must always be written; empty: nowhere
  bool is_log_path_asked = false;  // otherwise it is the default
  std::vector<std::string> unasked_outputs = {};  // paths that no option names
  // URLs of buckets in the command, which must not be run with them: it is parsed again with the
  // paths of their copies.
  std::vector<std::string> buckets = {};
  std::string cache_path = {};              // for copies; empty: the usual place
  std::vector<std::string> arguments = {};  // that were parsed
};

// `arguments` excludes the program's name. Never throws because of what the user typed. `copies`
// take the place of URLs of buckets.
Invocation parse_command_line(const std::vector<std::string>& arguments,
                              const BucketFolders& copies = {});

}  // namespace kiln
