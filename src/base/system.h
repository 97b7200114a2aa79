// System resources and events: CPUs, memory, clocks, threads, stop signals.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace kiln {

// This host's network name.
std::string host_name();

// Opens /dev/null for each standard stream (input, output, error) that is closed, so that no other
// file gets its descriptor. Call it before opening files.
void open_standard_descriptors();

// Unsets variables that name the folder for temporary files (TMPDIR and the like) but are empty.
// Call it before threads start.
void forget_empty_temporary_folders();

// This user's cache folder: $XDG_CACHE_HOME, else ~/.cache; empty if neither variable holds an
// absolute path.
std::filesystem::path user_cache_folder();

// The value of an environment variable; empty if it is not set.
std::string environment(const char* name);

// CPUs available to this process: the affinity mask, limited by the quotas of its control groups.
// At least 1.
int usable_cpus();

// Whether the processor has `feature`, named as in the flags of /proc/cpuinfo: avx2, avx512_bf16.
bool cpu_has(std::string_view feature);

// Peak and current resident memory, in bytes.
long long peak_memory_bytes();
long long resident_memory_bytes();

// Makes the process keep freed memory for reuse instead of returning it to the system, which would
// cost one page fault per page on the next use; malloc_trim() still returns it. Also limits the
// number of malloc arenas to the number of processors + 1, since many threads mostly wait.
void keep_freed_memory();

// Memory available to this process, in bytes: what the system reports, limited by its control
// groups.
long long available_memory_bytes();

// Raises this process's limit of open files to `wanted`, or as far as the system allows. Returns
// the limit that is then in effect.
unsigned long long allow_open_files(unsigned long long wanted);

// Seconds since 1970, UTC.
double unix_seconds();

// Seconds since the kernel started this process, so including the loading of libraries.
double seconds_since_process_start();

// CPU seconds used by all threads of this process.
double processor_seconds();

// Measures wall time since construction or the last lap().
class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  // Returns the seconds so far and restarts.
  double lap() {
    const Clock::time_point before = std::exchange(begin_, Clock::now());
    return std::chrono::duration<double>(begin_ - before).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// Runs `work(0)` to `work(count - 1)` on at most `num_threads` threads including the caller's, or
// fewer if the system cannot create that many. If a call throws, no further ones start, and the
// exception with the lowest index is rethrown.
void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work);

// Signals. These are process-wide: call them in `main`, or in a command that can stop early.

// The signals that ask this program to stop. If the parent ignores SIGHUP (nohup), it stays
// ignored.
inline constexpr std::array kStopSignals = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};

// From now on a stop signal ends this process immediately, with the exit code for that signal.
void end_on_stop_signals();

// From now on a stop signal is recorded; a second one, unless it repeats the first, ends the
// process immediately, with the exit code for that signal.
void install_stop_signals();

// Whether a second stop signal, that many seconds after the first, means no more than that one: a
// shell and the kernel both report a terminal that is closed; `timeout` signals its child and then
// the child's group.
constexpr bool repeats_stop(int first, int second, double seconds_after) {
  return second == SIGHUP || (second == first && seconds_after < 0.15);
}

// From now on SIGUSR2 requests a checkpoint instead of ending this process. Child programs do not
// inherit this.
void install_checkpoint_requests();

// Whether SIGUSR2 was received since the last call. Thread-safe.
bool take_checkpoint_request();

// From now on exceeding the file size limit (ulimit -f) makes the write fail, like a full disk,
// instead of ending the process with a signal.
void survive_file_size_limit();

// From now on writing to a closed console or connection fails, instead of ending the process with a
// signal.
void survive_broken_pipes();

// The first stop signal received, or 0. The corresponding exit code is 128 + the signal number.
int stop_signal();

// What the limits of Linux control groups leave to a process. The limits of a group bind all groups
// below it. `root` is where control groups are mounted (version 2; version 1 has a folder for each
// controller in it), and `groups` are the process's own as in /proc/self/cgroup. In a container its
// own group is the root, whatever path /proc/self/cgroup has.

// The bytes left, at least 0; 2^62 without a limit. The page cache counts as free, since the kernel
// reclaims it before it kills a process.
long long memory_left_in_groups(const std::filesystem::path& root, const std::string& groups);

// The processors that the quotas allow at a time, such as 1.5; infinity without a quota.
double cpus_of_groups(const std::filesystem::path& root, const std::string& groups);

}  // namespace kiln
