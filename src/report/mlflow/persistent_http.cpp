#include "report/mlflow/persistent_http.h"

#include <algorithm>

namespace kiln {
namespace {

constexpr int kAttemptsUntilComplaint = 3;
constexpr double kFirstPause = 0.5, kLongestPause = 30, kLongestRetryAfter = 3600;

}  // namespace

HttpAnswer PersistentHttp::call(HttpCall call) {
  const double timeout_s = call.timeout_s;
  HttpAnswer answer{.failure = "timed out"};
  double pause = kFirstPause;
  for (int attempt = 1;; ++attempt) {
    const double left = seconds_left();
    if (left <= 0) return answer;
    if (call.stall_s == 0) call.timeout_s = std::min(timeout_s, left);
    answer = client_.send(call);
    if (!answer.may_pass) return answer;
    if (attempt == kAttemptsUntilComplaint) complain_(failure_text(answer));
    if (!wait(pause, answer.retry_after_s)) return answer;
    pause = std::min(2 * pause, kLongestPause);
  }
}

void PersistentHttp::end_by(Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  end_ = end;
  hurried_.notify_all();
}

double PersistentHttp::seconds_left() {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(end_ - Clock::now()).count();
}

bool PersistentHttp::wait(double pause, double at_least) {
  const auto after = [begin = Clock::now()](double seconds) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(std::min(seconds, kLongestRetryAfter)));
  };
  const auto ends = [&] { return end_ != Clock::time_point::max(); };
  std::unique_lock lock(mutex_);
  const bool ended_before = ends();
  if (!ended_before) hurried_.wait_until(lock, after(std::max(pause, at_least)), ends);
  if (!ends()) return true;
  const auto next = after(ended_before ? std::max(pause, at_least) : at_least);
  if (next >= end_) return false;
  hurried_.wait_until(lock, next, [] { return false; });
  return true;
}

}  // namespace kiln
