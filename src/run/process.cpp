#include "run/process.h"

#include <cstdio>
#include <string>

#include "base/error.h"
#include "platform/failure_note.h"
#include "report/failure/error_info.h"

namespace kiln {

void announce_failure(const std::exception_ptr& failure, World& world) {
  const FailureReport told = report_failure(failure);
  world.announce_failure(told.messages.front(), told.exit_code);
}

namespace {

int report_everywhere(const std::exception_ptr& failure,
                      const std::optional<std::filesystem::path>& error_info, World& world,
                      Log& log) {
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

}  // namespace

int tell_failure(const std::exception_ptr& failure,
                 const std::optional<std::filesystem::path>& error_info, World& world, Log& log) {
  try {
    return report_everywhere(failure, error_info, world, log);
  } catch (const std::exception&) {  // there is not even memory for the report
    std::fputs("error: Out of memory.\n", stderr);
    return exit_code(ErrorCode::kModuleOutOfMemory);
  }
}

}  // namespace kiln
