// HTTP calls that are retried until they must end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>

#include "base/http.h"

namespace kiln {

// HTTP calls with retries of failures that may pass (obeying Retry-After), with a backoff from half
// a second to half a minute.
class PersistentHttp {
 public:
  using Clock = std::chrono::steady_clock;

  // `complain` is called with the reason, on the calling thread, after three failed attempts in a
  // row.
  PersistentHttp(const HttpLogin& login, std::function<void(const std::string&)> complain)
      : client_(login), complain_(std::move(complain)) {}

  // Returns the first final response, or the last failure if there is no time for another attempt.
  // One thread.
  HttpAnswer call(HttpCall call);

  // From now on no attempt starts after `end`, and only those that may stall (HttpCall::stall_s),
  // large uploads, may continue past it. Any thread.
  void end_by(Clock::time_point end);

 private:
  double seconds_left();
  // Waits for `pause`, shortened near the end but not below `at_least`. Returns false if the end
  // comes before that.
  bool wait(double pause, double at_least);

  HttpClient client_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  Clock::time_point end_ = Clock::time_point::max();
};

}  // namespace kiln
