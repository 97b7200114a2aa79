// How far `kiln score` and `kiln evaluate` are: a live line on a terminal, else a line now and
// then.
#pragma once

#include "base/log.h"
#include "base/system.h"
#include "report/sinks/log_lines.h"

namespace kiln {

// Used by one thread.
class ScoringProgress {
 public:
  // Of images; `total` 0: unknown. The log must outlive it.
  ScoringProgress(long long total, Log& log);

  // `done` of them, of which an earlier job did `before`.
  void show(long long done, long long before = 0);

  double seconds() const { return watch_.seconds(); }

 private:
  const long long total_;
  Log& log_;
  LiveLine live_;
  const Stopwatch watch_;
  double told_ = 0;
};

}  // namespace kiln
