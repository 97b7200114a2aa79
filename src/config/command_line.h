// argv -> Command. One table (options.cpp) lists every option with type, range, default, unit and
// help; parsing, range checks, `--help` and the README's tables come from it.
#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"

namespace kiln {

// `arguments` without the program's name. Throws Problems: all faults of the command line together,
// errors of exit 2 (kParameterParsing) before range errors. `log_path` receives what --log-path
// says even when other arguments are at fault, so that error_info.json can be written.
Command parse_command_line(const std::vector<std::string>& arguments, std::string* log_path);

// The option tables as Markdown, for README.md.
std::string options_markdown(const std::string& command);

}  // namespace kiln
