// Parse, run the command, one catch, exit code.
#include <exception>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/machine.h"
#include "base/signals.h"
#include "commands/dispatch.h"
#include "parallel/world.h"
#include "report/error_info.h"
#include "run/failure.h"

int main(int argc, char** argv) {
  kiln::open_standard_descriptors();
  kiln::end_on_stop_signals_as_process_1();
  kiln::Log log;
  kiln::RunReport report;
  kiln::World world;
  int code = 0;
  try {
    code = kiln::dispatch({argv + 1, argv + argc}, world, log, &report);
    if (report.wanted && world.leads())
      kiln::write_error_info(report.path, kiln::error_info_of_success(), log);
  } catch (...) {
    code = kiln::tell_failure(std::current_exception(), report, world, log);
  }
  return world.leave(code);
}
