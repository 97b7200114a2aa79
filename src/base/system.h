// System resources and events: CPUs, memory, clocks, threads, stop signals.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace kiln {

// This host's network name.
std::string host_name();

// Opens /dev/null for each of standard input, output and error that is closed, so that no other
// file gets its number. Call it before opening files.
void open_standard_descriptors();

// CPUs available to this process: the affinity mask, limited by the cgroup quota. At least 1.
int usable_cpus();

// Peak and current resident memory, in bytes.
long long peak_memory_bytes();
long long resident_memory_bytes();

// Makes the process reuse freed memory instead of returning it to the system, which would cost one
// page fault per page. malloc_trim() returns it. Also limits the number of malloc arenas to the
// number of processors + 1, since many threads mostly wait.
void keep_freed_memory();

// Memory available to this process, in bytes: what the system reports, within the control group's
// limit.
long long available_memory_bytes();

// Seconds since 1970, UTC.
double unix_seconds();

// Seconds since the kernel started this process, including the loading of libraries.
double seconds_since_process_start();

// Processor seconds used by all threads of this process.
double processor_seconds();

// Wall time since its construction.
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Calls `work(0)` to `work(count - 1)` on at most `num_threads` threads, including the caller's. If
// any call throws, no further ones start, and the exception with the lowest index is rethrown.
void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work);

// Stop signals as a flag. Process-wide, as signals are: install once, in a command that can stop
// early.

// Process 1 of a container has no default action for signals and would run until it is killed. With
// this it exits on a stop signal, with the usual exit code, like any other process.
void end_on_stop_signals_as_process_1();

// Records SIGTERM, SIGINT and SIGUSR1 from now on; a second one ends the process at once with its
// exit code.
void install_stop_signals();

// The first stop signal received, or 0. The corresponding exit code is 128 + the signal number.
int stop_signal();

}  // namespace kiln
