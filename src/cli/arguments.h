// The words of a command line and the lines of a --config file, as the text of each option.
#pragma once

#include <string>
#include <vector>

#include "cli/given.h"

namespace kiln {

// `words` start with the command's name. Never throws because of what the user typed.
Given parse_arguments(const CommandInfo& command, const std::vector<std::string>& words,
                      const BucketFolders& copies = {});

// Adds the settings in the file that --config names, if any, except those set by a flag.
void read_config_file(Given& given);  // config_file.cpp

}  // namespace kiln
