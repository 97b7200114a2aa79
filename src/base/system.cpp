#include "base/system.h"

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

namespace fs = std::filesystem;

namespace kiln {

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // open() returns the lowest free descriptor, which is this one.
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", O_RDWR);
}

void forget_empty_temporary_folders() {
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value == '\0') ::unsetenv(name);
  }
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

fs::path user_cache_folder() {
  // Others are ignored, as XDG demands.
  fs::path cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  if (cache.is_absolute()) return cache;
  return home.is_absolute() ? home / ".cache" : fs::path();
}

static constexpr const char* kControlGroups = "/sys/fs/cgroup";

// The groups of this process.
static std::string own_control_groups() {
  std::ifstream file("/proc/self/cgroup");
  return {std::istreambuf_iterator<char>(file), {}};
}

int usable_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  int cpus = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
  const double quota = cpus_of_groups(kControlGroups, own_control_groups());
  if (quota < cpus) cpus = static_cast<int>(std::ceil(quota));
  return std::max(cpus, 1);
}

bool cpu_has(std::string_view feature) {
  static const std::vector<std::string> kFeatures = [] {
    std::ifstream processors("/proc/cpuinfo");
    std::string line;
    while (std::getline(processors, line) && !line.starts_with("flags")) {
    }
    std::istringstream words(line);
    return std::vector<std::string>(std::istream_iterator<std::string>(words), {});
  }();
  return std::find(kFeatures.begin(), kFeatures.end(), feature) != kFeatures.end();
}

long long peak_memory_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024LL;
}

void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_ARENA_MAX, usable_cpus() + 1);
}

long long resident_memory_bytes() {
  std::ifstream file("/proc/self/statm");
  long long all = 0, resident = 0;
  file >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

long long available_memory_bytes() {
  long long available = memory_left_in_groups(kControlGroups, own_control_groups());
  std::ifstream system("/proc/meminfo");
  std::string key, unit;
  for (long long number = 0; system >> key >> number; std::getline(system, unit))
    if (key == "MemAvailable:") available = std::min(available, number * 1024);
  return available;
}

unsigned long long allow_open_files(unsigned long long wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return limit.rlim_cur;
  rlimit raised = limit;
  raised.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  return ::setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The second field, the program's name in parentheses, may contain spaces and parentheses. The
  // start time is the 20th field after it.
  std::size_t at = text.rfind(')');
  for (int field = 0; field < 20 && at != text.npos; ++field) at = text.find(' ', at + 1);
  if (at == text.npos) return 0;
  const double started = std::stod(text.substr(at + 1)) / ::sysconf(_SC_CLK_TCK);
  return seconds_of(CLOCK_BOOTTIME) - started;
}

double processor_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void in_parallel(std::size_t count, int num_threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        next = count;
        if (i >= failed) continue;
        failed = i;
        failure = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    const auto wanted = static_cast<std::size_t>(std::max(1, num_threads));
    try {
      for (std::size_t t = 1; t < std::min(count, wanted); ++t) threads.emplace_back(run);
    } catch (const std::system_error&) {  // the threads that could be created do the work
    }
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

namespace {

std::atomic<int> received = 0;
std::atomic<double> received_at = 0;  // seconds
std::atomic<bool> checkpoint_requested = false;
// Only lock-free atomics may be set in a signal handler.
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<double>::is_always_lock_free);

void set_handler(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

void handle_stop_signals(void (*handler)(int)) {
  for (const int signal : kStopSignals) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (signal == SIGHUP && before.sa_handler == SIG_IGN) continue;
    set_handler(signal, handler);
  }
}

void end(int signal) {
  // Ends the progress line, unless the terminal is paused. A failed write does not matter.
  pollfd terminal{STDOUT_FILENO, POLLOUT, 0};
  if (::isatty(STDOUT_FILENO) == 1 && ::poll(&terminal, 1, 0) == 1)
    std::ignore = ::write(STDOUT_FILENO, "\n", 1);
  ::_exit(128 + signal);
}

void remember(int signal) {
  if (received == 0) {
    received_at = seconds_of(CLOCK_MONOTONIC);
    received = signal;
  } else if (!repeats_stop(received, signal, seconds_of(CLOCK_MONOTONIC) - received_at)) {
    end(signal);
  }
}

}  // namespace

void end_on_stop_signals() {
  handle_stop_signals(end);
}

void install_stop_signals() {
  handle_stop_signals(remember);
}

void install_checkpoint_requests() {
  set_handler(SIGUSR2, [](int) { checkpoint_requested = true; });
}

bool take_checkpoint_request() {
  return checkpoint_requested.exchange(false);
}

void survive_file_size_limit() {
  std::signal(SIGXFSZ, SIG_IGN);
}

void survive_broken_pipes() {
  std::signal(SIGPIPE, SIG_IGN);
}

int stop_signal() {
  return received;
}

namespace {

constexpr long long kNoLimit = 1LL << 62;  // version 1 says that there is none by more than this

struct MemoryFiles {
  const char *limit, *used;
  std::array<const char*, 2> cached;  // in memory.stat
};

constexpr MemoryFiles kMemoryFiles = {
    "memory.max", "memory.current", {"active_file", "inactive_file"}};
constexpr MemoryFiles kMemoryFiles1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_active_file", "total_inactive_file"}};

long long memory_left_in_group(const fs::path& folder, const MemoryFiles& files) {
  std::ifstream limit_file(folder / files.limit), used_file(folder / files.used),
      parts(folder / "memory.stat");
  long long limit = 0, used = 0;  // reading "max", for no limit, fails
  if (!(limit_file >> limit && used_file >> used) || limit > kNoLimit) return kNoLimit;
  std::string part;
  for (long long bytes = 0; parts >> part >> bytes;)
    if (part == files.cached[0] || part == files.cached[1]) used -= bytes;
  return std::max(limit - used, 0LL);
}

double cpus_of_group(const fs::path& folder) {
  std::ifstream both(folder / "cpu.max"),  // "200000 100000" or "max 100000"
      quota(folder / "cpu.cfs_quota_us"), each(folder / "cpu.cfs_period_us");  // -1: no quota
  double microseconds = 0, period = 0;
  const bool is_told = both >> microseconds >> period || (quota >> microseconds && each >> period);
  const bool is_limited = is_told && microseconds > 0 && period > 0;
  return is_limited ? microseconds / period : std::numeric_limits<double>::infinity();
}

// The process's group in the hierarchy of a controller; "": of version 2.
fs::path group_of(const std::string& groups, const std::string& controller) {
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find(':') + 1, end = line.find(":/", begin);
    if (end == line.npos) continue;
    const std::string controllers = "," + line.substr(begin, end - begin) + ",";
    if (controllers.find("," + controller + ",") != line.npos) return line.substr(end + 1);
  }
  return "/";
}

// The least of what `of_group` returns for `root` and the groups from there to `group`.
template <typename OfGroup>
auto least(const fs::path& root, const fs::path& group, OfGroup&& of_group) {
  auto found = of_group(root);
  fs::path folder = root;
  for (const fs::path& name : group.relative_path())
    found = std::min(found, of_group(folder /= name));
  return found;
}

}  // namespace

long long memory_left_in_groups(const fs::path& root, const std::string& groups) {
  const auto left = [&](const fs::path& top, const char* controller, const MemoryFiles& files) {
    return least(top, group_of(groups, controller),
                 [&](const fs::path& folder) { return memory_left_in_group(folder, files); });
  };
  return std::min(left(root, "", kMemoryFiles), left(root / "memory", "memory", kMemoryFiles1));
}

double cpus_of_groups(const fs::path& root, const std::string& groups) {
  double found = least(root, group_of(groups, ""), cpus_of_group);
  for (const char* name : {"cpu", "cpu,cpuacct"})
    found = std::min(found, least(root / name, group_of(groups, "cpu"), cpus_of_group));
  return found;
}

}  // namespace kiln
