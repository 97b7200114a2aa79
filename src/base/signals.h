// Stop signals as a flag. Process-wide, since signals are: install once, in the command that can
// stop early.
#pragma once

namespace kiln {

// Process 1 of a container has no default action for signals and would go on until it is killed:
// from now on it ends on a stop signal, with its exit code, as every other process does.
void end_on_stop_signals_as_process_1();

// From now on SIGTERM, SIGINT and SIGUSR1 are remembered; a second one ends the process at once
// with its exit code.
void install_stop_signals();

// The first stop signal received, or 0. The exit code that goes with it is 128 + the number.
int stop_signal();

}  // namespace kiln
