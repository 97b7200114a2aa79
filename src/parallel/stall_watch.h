// How long a collective may wait for the other ranks: after a while a warning says who is missing,
// and again as often; at the deadline the wait ends. One thread.
#pragma once

#include <functional>
#include <string>

#include "parallel/rank_news.h"

namespace kiln {

class StallWatch {
 public:
  struct Limits {
    double deadline_s = 300;
    double stall_warning_s = 60;
  };

  StallWatch(Limits limits, std::function<void(const std::string&)> warn);

  // Another collective waits now.
  void begin();
  // True when the other ranks should be asked again what they do.
  bool asks(double waited_s);
  // True when judge() has something to say.
  bool judges(double waited_s) const;
  // `waited_s` seconds after begin(). Warns; past the deadline, unless those who are missing said
  // that they take long, throws Error kTimeoutOccured with the whole story. `doing` is this rank's
  // phase; `view.silence` is set here.
  void judge(const std::string& collective, double waited_s, RankView view,
             const std::string& doing);

 private:
  Limits limits_;
  std::function<void(const std::string&)> warn_;
  double ask_every_s_, asked_s_ = 0, warned_s_ = 0;
};

}  // namespace kiln
