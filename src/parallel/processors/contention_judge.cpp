#include "parallel/processors/contention_judge.h"

namespace kiln {
namespace {

// Of `waiting`. Measured: below 0.03 on a quiet machine, 0.3 to 0.5 with one other busy process per
// processor, however the threads wait.
constexpr double kContended = 0.15, kCrowded = 0.25, kQuiet = 0.05;
// Of `idle`.
constexpr double kNoneIdle = 0.05, kHalfIdle = 0.5;
constexpr int kQuietIntervals = 4;  // in a row, before threads spin again
// In a row, before threads sleep though no other program uses the processors: this process may just
// be writing a checkpoint.
constexpr int kContendedIntervals = 4;
// Of `others`, from which on leaving processors to them helps: threads of this process, such as one
// that writes a checkpoint, would not move there.
constexpr double kShared = 0.2;
// Gathered threads should have their cores alone, but the system moves other programs back at
// times. Where these keep more than this share on average, with so much weight on the last
// interval, since they are bound to the cores or gather there, too, the threads spread. Measured:
// 0.05 to 0.35 beside programs that may move, 0.6 beside bound ones.
constexpr double kKeptByOthers = 0.45, kLastInterval = 0.2;

}  // namespace

ThreadWait ContentionJudge::next(ThreadWait now, const ContentionLoad& load,
                                 Clock::time_point time) {
  const bool is_gathered = now == ThreadWait::kGather;
  const bool is_quiet = is_gathered ? load.idle > kHalfIdle : load.waiting < kQuiet;
  quiet_intervals_ = is_quiet ? quiet_intervals_ + 1 : 0;
  contended_intervals_ = load.waiting >= kContended ? contended_intervals_ + 1 : 0;
  others_average_ =
      is_gathered ? others_average_ + kLastInterval * (load.others - others_average_) : 0;
  const bool is_shared = load.others > kShared;
  if (now == ThreadWait::kSpin) {
    const bool is_contended = contended_intervals_ >= (is_shared ? 1 : kContendedIntervals);
    return is_contended ? ThreadWait::kSleep : ThreadWait::kSpin;
  }
  if (quiet_intervals_ == kQuietIntervals) return ThreadWait::kSpin;
  if (others_average_ > kKeptByOthers) {
    apart_until_ = time + apart_;
    return ThreadWait::kSleep;
  }
  const bool is_crowded = load.waiting >= kCrowded && load.idle < kNoneIdle && is_shared;
  return is_crowded && time >= apart_until_ ? ThreadWait::kGather : now;
}

}  // namespace kiln
