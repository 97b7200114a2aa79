#include "run/process/process.h"

#include <unistd.h>
#include <new>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/platform/sagemaker.h"
#include "report/error_info.h"

namespace kiln {
namespace {

std::terminate_handler former_handler = nullptr;

void end_of_unhandled() {
  try {
    if (const std::exception_ptr fault = std::current_exception()) std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    end_without_memory();
  } catch (...) {
  }
  former_handler();
}

void handle_early_faults() {
  former_handler = std::set_terminate(end_of_unhandled);
}

// The loader calls this before the initializers of all libraries, of which LibTorch's take much
// memory.
[[gnu::section(".preinit_array"), gnu::used]] void (*const kAtFirst)() = handle_early_faults;

}  // namespace

int tell_failure(const std::exception_ptr& failure,
                 const std::optional<std::filesystem::path>& error_info, World& world, Log& log) {
  const FailureReport told = report_failure(failure);
  const bool first = world.announce_failure(told.messages.front(), told.exit_code);
  for (const std::string& message : told.messages) log.error(message);
  if (!first || told.error_info.empty()) return told.exit_code;
  if (error_info) write_error_info(*error_info, told.error_info, log);
  std::string sentences;
  for (const std::string& message : told.messages)
    sentences += (sentences.empty() ? "" : "\n") + message;
  leave_failure_note(sentences);
  return told.exit_code;
}

int tell_failure(const std::exception_ptr& failure, Process& process) {
  if (!process.failure_told)
    process.failure_told = tell_failure(failure, process.error_info, process.world, process.log);
  return *process.failure_told;
}

void end_without_memory() {
  constexpr std::string_view kSentence = "error: Out of memory.\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  ::_exit(exit_code(ErrorCode::kModuleOutOfMemory));
}

}  // namespace kiln
