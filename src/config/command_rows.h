// The rows of the table of commands, each from the file that holds the command's options and what
// makes its struct of them. For the table in options.cpp alone.
#pragma once

#include <string>
#include <vector>

#include "config/options.h"

namespace kiln {

CommandInfo train_command();             // train_options.cpp
CommandInfo launch_command();            // launch_options.cpp
CommandInfo init_model_command();        // model_options.cpp
CommandInfo convert_command();           // data_options.cpp
CommandInfo pack_command();              //
CommandInfo demo_data_command();         //
CommandInfo bench_loader_command();      // bench_options.cpp
CommandInfo bench_collective_command();  //
CommandInfo watch_command();             // view_options.cpp
CommandInfo inspect_command();           //
CommandInfo report_command();            //
CommandInfo compare_command();           //
// `names`: of the commands that it can describe.
CommandInfo describe_command(const std::vector<std::string>& names);  //

}  // namespace kiln
