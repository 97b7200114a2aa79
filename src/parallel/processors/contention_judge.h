// When compute threads sleep while they wait for each other, and when they gather: the decisions of
// contention.h, from one half second to the next. docs/performance.md ("Sharing a machine") has the
// measurements.
#pragma once

#include <chrono>

namespace kiln {

// Of an interval; shares from 0 to 1.
struct ContentionLoad {
  double waiting = 0;  // of the time: a compute thread was ready to run but had no processor
  double idle = 0;     // of the processors that were left to others, or of all if none was
  double others = 0;   // what other programs used of the processors that were not left
};

enum class ThreadWait { kSpin, kSleep, kGather };  // kGather: sleep, and on half of the cores

// One thread.
class ContentionJudge {
 public:
  using Clock = std::chrono::steady_clock;

  // `apart`: for so long threads stay spread after the others kept to their cores.
  explicit ContentionJudge(Clock::duration apart) : apart_(apart) {}

  // What threads that did `now` in the interval should do from here on.
  ThreadWait next(ThreadWait now, const ContentionLoad& load, Clock::time_point time);

 private:
  const Clock::duration apart_;
  Clock::time_point apart_until_{};
  int quiet_intervals_ = 0, contended_intervals_ = 0;
  double others_average_ = 0;  // while gathered
};

}  // namespace kiln
