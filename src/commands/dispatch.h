// From a command line to the run() of the command that it names: an overload for each struct of
// `Command`, in the command's own pair of files.
#pragma once

#include <string>
#include <vector>

#include "config/command_line.h"
#include "run/process.h"

namespace kiln {

// Runs the command; returns its exit code. Throws the faults of the command line as Problems,
// before anything else is read or written, and whatever the command throws: Error, Problems,
// FailedElsewhere, or what the libraries throw.
int dispatch(const Invocation& invocation, Process& process);

// The same for what the program was started with: a command line, or SageMaker's folder.
int run_program(const std::vector<std::string>& arguments, Process& process);

}  // namespace kiln
