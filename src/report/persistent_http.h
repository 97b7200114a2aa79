// HTTP calls that are made again where that may help: after 429 (as long as Retry-After says), 5xx
// and calls without an answer, waiting from half a second to half a minute in between.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "report/http.h"

namespace kiln {

class PersistentHttp {
 public:
  using Clock = std::chrono::steady_clock;

  // `complain` hears the reason, on the calling thread, when three attempts in a row failed.
  PersistentHttp(const HttpLogin& login, std::function<void(const std::string&)> complain)
      : client_(login), complain_(std::move(complain)) {}

  // Returns when an attempt was answered for good, or when there is no time left for another: then
  // that attempt's failure. One thread.
  HttpAnswer call(HttpCall call);

  // From now on no attempt begins, and none with a timeout lasts, beyond `end`. Any thread.
  void end_by(Clock::time_point end);

 private:
  double seconds_left();
  // Shortens `pause`, but not `at_least`, when the end comes near. False: it comes before that.
  bool wait(double pause, double at_least);

  HttpClient client_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  Clock::time_point end_ = Clock::time_point::max();
};

// "it answers 503", "Connection refused".
std::string failure_text(const HttpAnswer& answer);

}  // namespace kiln
