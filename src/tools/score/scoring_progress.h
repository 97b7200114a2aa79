// The progress of commands that ask a model or change images: a live line on a terminal, otherwise
// a log line now and then.
#pragma once

#include "base/log.h"
#include "base/system.h"
#include "report/console.h"

namespace kiln {

// One thread.
class ScoringProgress {
 public:
  // `total` is the number of images; 0: unknown. The log must outlive this object.
  ScoringProgress(long long total, Log& log) : total_(total), log_(log) {
    live_.utf8 = locale_is_utf8();
  }

  // Shows that `done` images are done, `before` of them by an earlier job.
  void show(long long done, long long before = 0) {
    const bool is_live = log_.on_terminal();
    const double now = watch_.seconds(), seconds_between_lines = is_live ? 0.1 : 10;
    if (now - told_ < seconds_between_lines) return;
    told_ = now;
    live_.columns = live_columns();
    const std::string line = scoring_line(done, total_, now, live_, before);
    is_live ? log_.progress(line) : log_.info(line);
  }

  double seconds() const { return watch_.seconds(); }

 private:
  const long long total_;
  Log& log_;
  LiveLine live_;
  const Stopwatch watch_;
  double told_ = 0;
};

}  // namespace kiln
