#include "run/process/process.h"

#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "base/platform/installation.h"
#include "report/error_info.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

std::terminate_handler former_handler = nullptr;

const auto kStarted = fs::file_time_type::clock::now();

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

int report_exception(const std::exception_ptr& failure, const std::optional<fs::path>& error_info,
                     World& world, Log& log) {
  FailureReport told = report_failure(failure);
  const bool must_report = world.announce_failure(told.messages.front(), told.exit_code);
  // Whether another rank of this job has reported its failure: what it caused here is no news. A
  // rank that was stopped wakes when the job is ended, and has not heard of it.
  std::error_code absent;
  const bool is_reported = error_info && world.rank() > 0 &&
                           fs::last_write_time(*error_info, absent) > kStarted && !absent;
  if (!must_report || is_reported) told.error_info.clear();
  tell(told, error_info, log);
  return told.exit_code;
}

int report_exception(const std::exception_ptr& failure, Process& process) {
  if (!process.failure_told)
    process.failure_told =
        report_exception(failure, process.error_info, process.world, process.log);
  return *process.failure_told;
}

void end_lack_of_memory() {
  former_handler = std::set_terminate(end_of_unhandled);
}

}  // namespace kiln
