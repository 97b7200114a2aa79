#include "run/process/process.h"

#include <string>

#include "base/platform/failure_note.h"
#include "report/error_info.h"

namespace kiln {

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

}  // namespace kiln
