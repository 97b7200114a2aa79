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
#include "parallel/processors/contention_judge.h"
#include "parallel/processors/processors.h"
#include "parallel/processors/sleeping_team.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kInterval{500};
// How long the threads stay spread where gathering did not help. It differs between processes.
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
        judge_(kLeastApart + std::chrono::seconds(::getpid() % kMostLonger)),
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
      ContentionLoad load = measure(interval.count());
      if (now) {
        load.waiting = (*now - *before) / interval.count();
        wait_as(judge_.next(wait_, load, Clock::now()));
      }
      before = now;
      begin += std::chrono::duration_cast<Clock::duration>(interval);
    }
  }

  // The load since the last call, without `waiting`.
  ContentionLoad measure(double seconds) {
    std::map<int, double> now = idle_seconds();
    double left = 0, kept = 0;
    for (const Processor& processor : processors_)
      (is_left(processor) ? left : kept) += now[processor.number] - idle_[processor.number];
    const auto num_left = static_cast<double>(left_.size());
    const double num_kept = static_cast<double>(processors_.size()) - num_left;
    const double used_before = std::exchange(used_, processor_seconds());
    const double used = used_ - used_before;
    const double idle = (left_.empty() ? kept / num_kept : left / num_left) / seconds;
    const bool is_told = !idle_.empty();  // by the system
    idle_ = std::move(now);
    return {.idle = is_told ? idle : 1, .others = 1 - (kept + used) / seconds / num_kept};
  }

  void wait_as(ThreadWait wanted) {
    if (wanted == wait_) return;
    if (wanted != ThreadWait::kGather) spread();
    if (wanted == ThreadWait::kSpin) team_.reset();
    if (wanted == ThreadWait::kSleep && !team_) {
      try {
        team_.emplace(team_size_);
      } catch (const std::system_error&) {  // no more threads allowed: change nothing
      }
    }
    if (wanted == ThreadWait::kGather) gather();
    wait_ = !left_.empty() ? ThreadWait::kGather : team_ ? ThreadWait::kSleep : ThreadWait::kSpin;
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
  std::vector<int> left_;       // the processors that were left; empty: none
  std::optional<SleepingTeam> team_;
  ContentionJudge judge_;
  ThreadWait wait_ = ThreadWait::kSpin;  // what the threads do
  std::jthread thread_;                  // declared last: it uses the other members
};

}  // namespace

void watch_contention(int num_processors, int num_threads) {
  static const ContentionWatch watch(num_processors, num_threads);
}

void keep_threads_apart() {
  threads_stay_apart = true;
}

}  // namespace kiln
