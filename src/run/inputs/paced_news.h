// News of work that takes long: now and then a line of the log, and often one on a live terminal.
#pragma once

#include <string>

#include "base/log.h"
#include "base/system.h"

namespace kiln {

// One thread.
class PacedNews {
 public:
  // The log must outlive it.
  explicit PacedNews(Log& log) : log_(log) {}

  double seconds() const { return watch_.seconds(); }  // since it was made

  // `text` makes the line, if one is due: the first one after some seconds.
  template <typename Text>
  void show(const Text& text) {
    constexpr double kFirst = 5, kBetween = 30, kBetweenLive = 0.2;  // seconds
    const double now = watch_.seconds();
    if (now < shown_ + kBetweenLive) return;
    shown_ = now;
    log_.progress(text());
    if (now < (logged_ == 0 ? kFirst : logged_ + kBetween)) return;
    logged_ = now;
    log_.milestone(text());
  }

 private:
  Log& log_;
  const Stopwatch watch_;
  double shown_ = 0, logged_ = 0;
};

}  // namespace kiln
