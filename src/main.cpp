// Parse, run the command, one catch, exit code.
#include <unistd.h>
#include <exception>
#include <string>
#include <vector>

#include "base/system.h"
#include "report/error_info.h"
#include "run/process/process.h"
#include "tools/commands.h"

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
    code = kiln::tell_failure(std::current_exception(), process);
  }
  return process.world.leave(code);
} catch (const std::exception&) {  // no memory, not even for a report
  kiln::end_without_memory();
}
