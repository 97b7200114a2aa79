#include "process/compute_threads.h"

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

#include "base/system.h"
#include "process/sleeping_team.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{500};
// Of an interval, ready to run without a processor: below 0.03 on a quiet machine, 0.3 to 0.5
// beside one busy process a processor, whichever way the threads wait.
constexpr double kContended = 0.15, kQuiet = 0.05;
constexpr int kQuietIntervals = 4;  // before threads spin again

const int kProcessorsAtStart = usable_cpus();  // which libgomp goes by

// Seconds that a thread was ready to run and had no processor. Empty where the system does not
// tell.
std::optional<double> seconds_without_processor(const std::string& file) {
  std::ifstream text(file);
  double running = 0, waiting = 0;
  if (!(text >> running >> waiting)) return std::nullopt;
  return waiting * 1e-9;
}

// Looks twice a second at how long the thread that made it waits for processors.
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
    } catch (const std::system_error&) {  // no more threads: it goes on as it was
    }
  }

  const int team_size_;  // with those that compute, one more than there are processors
  const std::string file_;
  std::optional<SleepingTeam> team_;
  int quiet_intervals_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool must_end_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

void use_compute_threads(int count) {
  at::set_num_threads(count);
  const bool is_decided =
      std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr;
  if (count < 2 || count > kProcessorsAtStart || is_decided) return;
  try {
    static const Watch watch(count);
  } catch (const std::system_error&) {  // no more threads: they spin
  }
}

}  // namespace kiln
