// What the program answers without LibTorch, and what a command line says of its own answer. Each
// answer() returns the exit code.
#pragma once

#include <filesystem>
#include <optional>

#include "cli/command_line.h"
#include "cli/run_config.h"

namespace kiln {

int answer(const HelpRequest& help);

int answer(const DescribeConfig& config);

// Throws Error kFailedToWriteOutputs if standard output, which carries the result, was not written.
void require_printed_result();

// Where error_info.json is written for this command line: KILN_ERROR_INFO, of any command, or in
// the log folder. If it has problems and no --log-path, the
// default folder, which may hold a finished run, is left alone, except under Azure ML.
std::optional<std::filesystem::path> place_of_error_info(const Invocation& invocation);

}  // namespace kiln
