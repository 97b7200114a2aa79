// Parse, run the command, one catch, exit code.
#include <unistd.h>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system.h"
#include "commands/commands.h"
#include "process/process.h"
#include "report/failure/error_info.h"

namespace {

constexpr const char* kNoMemory = "error: Out of memory.\n";

std::terminate_handler former_handler = nullptr;

// Ends the process with a sentence where nothing catches that memory is short.
void end_without_memory() {
  try {
    if (const std::exception_ptr fault = std::current_exception()) std::rethrow_exception(fault);
  } catch (const std::bad_alloc&) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kNoMemory, std::strlen(kNoMemory));
    ::_exit(kiln::exit_code(kiln::ErrorCode::kModuleOutOfMemory));
  } catch (...) {
  }
  former_handler();
}

void handle_early_faults() {
  former_handler = std::set_terminate(end_without_memory);
}

// The loader calls this before the initializers of all libraries, of which LibTorch's take much
// memory.
[[gnu::section(".preinit_array"), gnu::used]] void (*const at_first)() = handle_early_faults;

}  // namespace

int main(int argc, char** argv) try {
  kiln::forget_empty_temporary_folders();
  kiln::open_standard_descriptors();
  kiln::survive_file_size_limit();
  kiln::install_checkpoint_requests();
  // Process 1 of a container has no default action for signals and would go on until it is killed.
  if (::getpid() == 1) kiln::end_on_stop_signals();
  kiln::Process process;
  int code = 0;
  try {
    code = kiln::run_program({argv + 1, argv + argc}, process);
    if (process.error_info && process.world.leads())
      kiln::write_error_info(*process.error_info, kiln::error_info_of_success(), process.log);
  } catch (...) {
    code = kiln::tell_failure(std::current_exception(), process.error_info, process.world,
                              process.log);
  }
  return process.world.leave(code);
} catch (const std::exception&) {  // no memory, not even for a report
  std::fputs(kNoMemory, stderr);
  return kiln::exit_code(kiln::ErrorCode::kModuleOutOfMemory);
}
