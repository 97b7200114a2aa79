#include "parallel/processors/compute_threads.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "parallel/processors/sleeping_team.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{500};
// Thresholds for the share of an interval in which the thread was ready to run but had no
// processor. Measured: below 0.03 on a quiet machine, 0.3 to 0.5 with one other busy process per
// processor, however the threads wait.
constexpr double kContended = 0.15, kQuiet = 0.05;
// Every operation wakes all threads: with 32 per processor a step takes ten times as long as with
// one, with 512 over a hundred times.
constexpr int kMaxPerProcessor = 32;
constexpr int kQuietIntervals = 4;  // in a row, before threads spin again

const int kProcessorsAtStart = usable_cpus();  // the number that libgomp uses

// The seconds for which a thread was ready to run but had no processor, from its schedstat file.
// Empty if the system does not provide it.
std::optional<double> seconds_without_processor(const std::string& file) {
  std::ifstream text(file);
  double running = 0, waiting = 0;
  if (!(text >> running >> waiting)) return std::nullopt;
  return waiting * 1e-9;
}

// Measures twice a second how long the thread that created it waits for a processor, and keeps a
// SleepingTeam while that is long.
class Watch {
 public:
  explicit Watch(int count)
      : team_size_(kProcessorsAtStart - count + 2),
        file_("/proc/self/task/" + std::to_string(::gettid()) + "/schedstat"),
        thread_([this] { run(); }) {}
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      must_end_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run() {
    std::optional<double> before = seconds_without_processor(file_);
    Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    while (before && !changed_.wait_for(lock, kInterval, [&] { return must_end_; })) {
      const std::optional<double> now = seconds_without_processor(file_);
      const std::chrono::duration<double> interval = Clock::now() - begin;
      if (now) judge((*now - *before) / interval.count());
      before = now;
      begin += std::chrono::duration_cast<Clock::duration>(interval);
    }
  }

  void judge(double share) {
    quiet_intervals_ = share < kQuiet ? quiet_intervals_ + 1 : 0;
    if (team_ && quiet_intervals_ == kQuietIntervals) team_.reset();
    if (team_ || share < kContended) return;
    try {
      team_.emplace(team_size_);
    } catch (const std::system_error&) {  // no more threads allowed: change nothing
    }
  }

  const int team_size_;  // makes libgomp's thread count exceed the processors by one
  const std::string file_;
  std::optional<SleepingTeam> team_;
  int quiet_intervals_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool must_end_ = false;
  std::thread thread_;  // declared last: it uses the other members
};

}  // namespace

void use_compute_threads(int count) {
  if (const int most = kMaxPerProcessor * kProcessorsAtStart; count > most)
    throw Error(ErrorCode::kUserError,
                formatted("--threads is %d, but this process may use only %d processors: so many "
                          "threads would mostly wait for each other. Give at most %d, or omit it "
                          "for one thread per processor.",
                          count, kProcessorsAtStart, most));
  at::set_num_threads(count);
  const bool is_decided =
      std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  if (count < 2 || count > kProcessorsAtStart || is_decided) return;
  try {
    static const Watch watch(count);
  } catch (const std::system_error&) {  // no more threads allowed: the threads keep spinning
  }
}

}  // namespace kiln
