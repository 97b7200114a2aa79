// System resources and events: CPUs, memory, clocks, threads, stop signals.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>

namespace kiln {

// This host's network name.
std::string host_name();

// Opens /dev/null for each of standard input, output and error that is closed, so that no other
// file gets its number. Call it before opening files.
void open_standard_descriptors();

// Empty names of the folder for temporary files (TMPDIR and the like) count as missing ones from
// now on. Before threads start.
void forget_empty_temporary_folders();

// Where this user's programs keep what can be had again: $XDG_CACHE_HOME, else ~/.cache; empty if
// neither variable holds an absolute path.
std::filesystem::path user_cache_folder();

// CPUs available to this process: the affinity mask, limited by the cgroup quota. At least 1.
int usable_cpus();

// Peak and current resident memory, in bytes.
long long peak_memory_bytes();
long long resident_memory_bytes();

// Makes the process reuse freed memory instead of returning it to the system, which would cost one
// page fault per page. malloc_trim() returns it. Also limits the number of malloc arenas to the
// number of processors + 1, since many threads mostly wait.
void keep_freed_memory();

// Memory available to this process, in bytes: what the system reports, within the limits of its
// control groups.
long long available_memory_bytes();

// What the limits of the control group `group` ("/job/step") and those above it leave, in bytes;
// `root` is where control groups are mounted. Cached files count as free: the system takes them
// back before it kills.
long long memory_left_in_groups(const std::filesystem::path& root,
                                const std::filesystem::path& group);

// Seconds since 1970, UTC.
double unix_seconds();

// Seconds since the kernel started this process, including the loading of libraries.
double seconds_since_process_start();

// Processor seconds used by all threads of this process.
double processor_seconds();

// Wall time since its construction or its last lap().
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  // Since the previous call.
  double lap() {
    const Clock::time_point before = std::exchange(begin_, Clock::now());
    return std::chrono::duration<double>(begin_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Independent pieces of work, spread over a few threads for as long as one call lasts.

// Runs `work(0)` to `work(count - 1)` on at most `num_threads` threads, the caller's among them;
// fewer where the system has no more. If any throws, no new ones begin, and the exception of the
// lowest number is rethrown.
void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work);

// Signals. They are process-wide: call these in `main`, or in the command that can stop early.

// The signals that ask this program to stop. A SIGHUP that its parent ignores (nohup) stays
// ignored.
inline constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

// From now on a stop signal ends this process at once, with its exit code.
void end_on_stop_signals();

// From now on a stop signal is remembered; a second one ends the process at once with its exit
// code.
void install_stop_signals();

// From now on SIGUSR2 asks for a checkpoint, and does not end this process. It is not inherited by
// programs that this one starts.
void install_checkpoint_requests();

// Whether SIGUSR2 was received since the last call. Any thread.
bool take_checkpoint_request();

// From now on a file that reaches its largest size (ulimit -f) is a failing write, like a full
// disk, and no signal that ends this process.
void survive_file_size_limit();

// From now on a closed console or connection is a failing write, and no signal that ends this
// process.
void survive_broken_pipes();

// The first stop signal received, or 0. The exit code that goes with it is 128 + the number.
int stop_signal();

}  // namespace kiln
