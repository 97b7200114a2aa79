// The starter: answers what needs no LibTorch, a faulty command line first of all, and opens the
// library for the rest.
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/platform/installation.h"
#include "base/platform/launch_environment.h"
#include "base/platform/sagemaker.h"
#include "base/system.h"
#include "cli/command_line.h"
#include "report/error_info.h"
#include "tools/describe/describe.h"
#include "tools/sagemaker/sagemaker_job.h"

namespace kiln {
namespace {

// The exit code of a command line that is answered here; empty for one that the library runs.
// `error_info` becomes where a failure is reported.
std::optional<int> answered(const std::vector<std::string>& arguments,
                            std::optional<std::filesystem::path>& error_info) {
  const Invocation invocation = parse_command_line(arguments);
  error_info = place_of_error_info(invocation);
  invocation.problems.throw_if_any();
  return std::visit(
      [](const auto& config) -> std::optional<int> {
        if constexpr (requires { answer(config); }) return answer(config);
        return std::nullopt;
      },
      invocation.command);
}

// All ranks of a job were given the same words, and those of a host have the same files: the first
// one tells what is wrong with them.
int report_refusal(const std::optional<std::filesystem::path>& error_info, int rank) {
  FailureReport failure = report_failure(std::current_exception());
  if (rank > 0) return failure.exit_code;
  if (launched_rank() > 0) failure.error_info.clear();
  Log log;
  tell(failure, error_info, log);
  return failure.exit_code;
}

int start(int argc, char** argv) {
  std::optional<std::filesystem::path> error_info;
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (!is_sagemaker_start(arguments, sagemaker_folder()))
      if (const std::optional<int> code = answered(arguments, error_info)) return *code;
  } catch (...) {
    return report_refusal(error_info, launched_rank());
  }
  Main* run = nullptr;
  try {
    run = open_library();
  } catch (...) {
    return report_refusal(error_info, launched_local_rank());
  }
  return run(argc, argv);
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) try {
  kiln::forget_empty_temporary_folders();
  kiln::open_standard_descriptors();
  kiln::survive_file_size_limit();
  return kiln::start(argc, argv);
} catch (const std::exception&) {  // no memory, not even for a report
  kiln::end_without_memory();
}
