#include "commands/failure.h"

#include "report/error_info.h"

namespace kiln {

int tell_failure(const std::exception_ptr& failure, const RunReport& report, World& world,
                 Log& log) {
  const FailureReport told = report_failure(failure);
  const bool first = world.announce_failure(told.messages.front(), told.exit_code);
  for (const std::string& message : told.messages) log.error(message);
  if (report.wanted && first && !told.error_info.empty())
    write_error_info(report.path, told.error_info, log);
  return told.exit_code;
}

}  // namespace kiln
