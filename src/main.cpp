// Parse, run the command, one catch, exit code.
#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "commands/dispatch.h"
#include "report/error_info.h"

int main(int argc, char** argv) {
  kiln::Log log;
  kiln::RunReport report;
  try {
    const int code = kiln::dispatch({argv + 1, argv + argc}, log, &report);
    if (report.wanted) kiln::write_error_info(report.path, kiln::error_info_of_success(), log);
    return code;
  } catch (...) {
    const kiln::FailureReport failure = kiln::report_failure(std::current_exception());
    for (const std::string& message : failure.messages) log.error(message);
    if (report.wanted) kiln::write_error_info(report.path, failure.error_info, log);
    return failure.exit_code;
  }
}
