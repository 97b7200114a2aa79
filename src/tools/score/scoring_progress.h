// The progress of `kiln score` and `kiln evaluate`: a live line on a terminal, otherwise a log line
// now and then.
#pragma once

#include "base/log.h"
#include "base/system.h"
#include "report/log_lines.h"

namespace kiln {

// Use from one thread.
class ScoringProgress {
 public:
  // `total` is the number of images; 0: unknown. The log must outlive this object.
  ScoringProgress(long long total, Log& log);

  // Shows that `done` images are done, `before` of them by an earlier job.
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
