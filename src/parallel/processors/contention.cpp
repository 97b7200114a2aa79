#include "parallel/processors/contention.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/system.h"
#include "parallel/processors/processors.h"
#include "parallel/processors/sleeping_team.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{500};
// Thresholds for the share of an interval in which the thread was ready to run but had no
// processor. Measured: below 0.03 on a quiet machine, 0.3 to 0.5 with one other busy process per
// processor, however the threads wait.
constexpr double kContended = 0.15, kCrowded = 0.25, kQuiet = 0.05;
// Thresholds for the share of an interval in which processors were idle.
constexpr double kNoneIdle = 0.05, kHalfIdle = 0.5;
constexpr int kQuietIntervals = 4;  // in a row, before threads spin again
// In a row, before threads sleep though no other program uses the processors: this process may just
// be writing a checkpoint.
constexpr int kContendedIntervals = 4;
// The share of the processors that other programs use, from which on leaving some to them helps:
// threads of this process, such as one that writes a checkpoint, would not move there.
constexpr double kShared = 0.2;
// Gathered threads should have their cores alone, but the system moves other programs back at
// times. Where these keep more than this share on average, with so much weight on the last
// interval, since they are bound to the cores or gather there, too, the threads spread and stay so
// for a time, which differs between processes. Measured: 0.05 to 0.35 beside programs that may
// move, 0.6 beside bound ones.
constexpr double kKeptByOthers = 0.45, kLastInterval = 0.2;
constexpr std::chrono::seconds kLeastApart{30};
constexpr int kMostLonger = 20;  // seconds

std::atomic<bool> threads_stay_apart = false;

// The seconds for which a thread was ready to run but had no processor, from its schedstat file.
// Empty if the system does not provide it.
std::optional<double> seconds_without_processor(const std::string& thread_folder) {
  std::ifstream text(thread_folder + "/schedstat");
  double running = 0, waiting = 0;
  if (!(text >> running >> waiting)) return std::nullopt;
  return waiting * 1e-9;
}

// The processor that a thread last ran on: field 39 of its stat file, whose second field is a name
// in parentheses. -1 if the system does not provide it.
int processor_of(const std::string& thread_folder) {
  constexpr int kFieldsBetween = 36;  // the state is the third
  std::ifstream text(thread_folder + "/stat");
  std::string line;
  if (!std::getline(text, line) || line.rfind(')') == line.npos) return -1;
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  int processor = -1;
  return fields >> processor ? processor : -1;
}

// The seconds for which each processor has been idle, by its number. Empty if the system does not
// provide them.
std::map<int, double> idle_seconds() {
  const double ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::map<int, double> idle;
  std::ifstream text("/proc/stat");
  for (std::string line; std::getline(text, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    int number = 0;
    double user = 0, nice = 0, system = 0, unused = 0, waiting = 0;
    if (line[3] != ' ' && fields >> number >> user >> nice >> system >> unused >> waiting)
      idle[number] = (unused + waiting) / ticks_per_second;
  }
  return idle;
}

class ContentionWatch {
 public:
  ContentionWatch(int num_processors, int num_threads)
      : team_size_(num_processors - num_threads + 2),
        thread_folder_("/proc/self/task/" + std::to_string(::gettid())),
        processors_(own_processors()),
        thread_([this](const std::stop_token& stop) { run(stop); }) {}

 private:
  void run(const std::stop_token& stop) {
    std::optional<double> before = seconds_without_processor(thread_folder_);
    idle_ = idle_seconds();
    used_ = processor_seconds();
    Clock::time_point begin = Clock::now();
    std::mutex mutex;
    std::condition_variable_any changed;  // by the end alone
    std::unique_lock lock(mutex);
    const auto ends = [&] { return stop.stop_requested(); };
    while (before && !changed.wait_for(lock, stop, kInterval, ends)) {
      const std::optional<double> now = seconds_without_processor(thread_folder_);
      const std::chrono::duration<double> interval = Clock::now() - begin;
      measure(interval.count());
      if (now) judge((*now - *before) / interval.count());
      before = now;
      begin += std::chrono::duration_cast<Clock::duration>(interval);
    }
  }

  // Sets `idle_share_` and `others_share_` since the last call.
  void measure(double seconds) {
    std::map<int, double> now = idle_seconds();
    double left = 0, kept = 0;
    for (const Processor& processor : processors_)
      (is_left(processor) ? left : kept) += now[processor.number] - idle_[processor.number];
    const auto num_left = static_cast<double>(left_.size());
    const double num_kept = static_cast<double>(processors_.size()) - num_left;
    const double used_before = std::exchange(used_, processor_seconds());
    const double used = used_ - used_before;
    idle_share_ = (left_.empty() ? kept / num_kept : left / num_left) / seconds;
    others_share_ = 1 - (kept + used) / seconds / num_kept;
    if (idle_.empty()) idle_share_ = 1;  // not told by the system
    idle_ = std::move(now);
  }

  void judge(double waiting) {
    const bool is_quiet = left_.empty() ? waiting < kQuiet : idle_share_ > kHalfIdle;
    quiet_intervals_ = is_quiet ? quiet_intervals_ + 1 : 0;
    contended_intervals_ = waiting >= kContended ? contended_intervals_ + 1 : 0;
    others_average_ +=
        left_.empty() ? -others_average_ : kLastInterval * (others_share_ - others_average_);
    if (team_ && quiet_intervals_ == kQuietIntervals) {
      spread();
      team_.reset();
    } else if (!team_ && contended_intervals_ > 0 &&
               (others_share_ > kShared || contended_intervals_ >= kContendedIntervals)) {
      try {
        team_.emplace(team_size_);
      } catch (const std::system_error&) {  // no more threads allowed: change nothing
      }
    } else if (others_average_ > kKeptByOthers) {
      spread();
      apart_until_ = Clock::now() + kLeastApart + std::chrono::seconds(::getpid() % kMostLonger);
    } else if (team_ && left_.empty() && waiting >= kCrowded && idle_share_ < kNoneIdle &&
               others_share_ > kShared && Clock::now() >= apart_until_) {
      gather();
    }
  }

  // Leaves the half of the cores that the watched thread is not on.
  void gather() {
    if (threads_stay_apart) return;
    const int here = processor_of(thread_folder_);
    left_ = processors_of_part(processors_, 0, 2);
    if (std::ranges::count(left_, here) > 0) left_ = processors_of_part(processors_, 1, 2);
    if (!left_.empty() && !keep_to_the_others()) left_.clear();
  }

  void spread() {
    if (left_.empty()) return;
    left_.clear();
    keep_to_the_others();
  }

  // Binds the threads to the processors that were not left.
  bool keep_to_the_others() const {
    std::vector<int> others;
    for (const Processor& processor : processors_)
      if (!is_left(processor)) others.push_back(processor.number);
    return bind_all_threads(others);
  }
  bool is_left(const Processor& processor) const {
    return std::ranges::count(left_, processor.number) > 0;
  }

  const int team_size_;  // makes libgomp's thread count exceed the processors by one
  const std::string thread_folder_;
  const std::vector<Processor> processors_;
  std::map<int, double> idle_;  // idle_seconds() at the last call of measure()
  double used_ = 0;             // processor_seconds() then
  double idle_share_ = 1;       // of the processors that were left, or of all if none was
  double others_share_ = 0;     // of other programs, of the processors that were not left
  double others_average_ = 0;   // of others_share_, since processors were left
  std::vector<int> left_;       // the processors that were left; empty: none
  std::optional<SleepingTeam> team_;
  int quiet_intervals_ = 0, contended_intervals_ = 0;
  Clock::time_point apart_until_{};
  std::jthread thread_;  // declared last: it uses the other members
};

}  // namespace

void watch_contention(int num_processors, int num_threads) {
  static const ContentionWatch watch(num_processors, num_threads);
}

void keep_threads_apart() {
  threads_stay_apart = true;
}

}  // namespace kiln
