#include "run/process/process.h"

#include <new>

#include "base/platform/installation.h"
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

}  // namespace

int tell_failure(const std::exception_ptr& failure,
                 const std::optional<std::filesystem::path>& error_info, World& world, Log& log) {
  FailureReport told = report_failure(failure);
  if (!world.announce_failure(told.messages.front(), told.exit_code)) told.error_info.clear();
  tell(told, error_info, log);
  return told.exit_code;
}

int tell_failure(const std::exception_ptr& failure, Process& process) {
  if (!process.failure_told)
    process.failure_told = tell_failure(failure, process.error_info, process.world, process.log);
  return *process.failure_told;
}

void end_lack_of_memory() {
  former_handler = std::set_terminate(end_of_unhandled);
}

}  // namespace kiln
