#include "report/mlflow_sender.h"

#include <algorithm>
#include <chrono>

#include "base/text.h"

namespace kiln {
namespace {

using Clock = PersistentHttp::Clock;

// Points are collected for so long before a call.
constexpr auto kCollecting = std::chrono::seconds(2);
constexpr auto kFlush = std::chrono::seconds(10);
// After the model, for how the run ended.
constexpr auto kLastWord = std::chrono::seconds(5);
constexpr double kCallSeconds = 5;

// In calls that the server takes.
template <typename Send>
void in_portions(const TextPairs& pairs, Send&& send) {
  for (std::size_t i = 0; i < pairs.size(); i += kMostMlflowPairs) {
    const std::size_t end = std::min(pairs.size(), i + kMostMlflowPairs);
    send(TextPairs(pairs.begin() + static_cast<long>(i), pairs.begin() + static_cast<long>(end)));
  }
}

}  // namespace

MlflowSender::MlflowSender(MlflowSettings settings, TextPairs params, TextPairs tags, Log& log)
    : params_(std::move(params)),
      tags_(std::move(tags)),
      log_(log),
      server_(std::move(settings), [this](const std::string& reason) { warn_once(reason); }),
      thread_([this] { work(); }) {}

MlflowSender::~MlflowSender() {
  if (!thread_.joinable()) return;
  server_.end_by(Clock::now());
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MlflowSender::add(std::vector<MlflowPoint> points) {
  const std::lock_guard lock(mutex_);
  num_points_ += points.size();
  std::move(points.begin(), points.end(), std::back_inserter(waiting_));
  for (; waiting_.size() > kMostWaiting; ++num_lost_) waiting_.pop_front();
  changed_.notify_one();
}

void MlflowSender::end(MlflowEnd end) {
  server_.end_by(Clock::now() + kFlush);
  {
    const std::lock_guard lock(mutex_);
    end_ = std::move(end);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MlflowSender::work() {
  open_ = attempt("", [&] {
    server_.open_run();
    log_.info("MLflow:           " + server_.run_page());
  });
  if (open_) send_description();
  for (std::vector<MlflowPoint> points = next_points(); !points.empty(); points = next_points()) {
    if (open_ && attempt("", [&] { server_.log_metrics(points); })) continue;
    const std::lock_guard lock(mutex_);
    num_lost_ += points.size();
  }
  if (open_) send_rest();
}

void MlflowSender::send_description() {
  attempt("the tags",
          [&] { in_portions(tags_, [&](const TextPairs& tags) { server_.log_tags(tags); }); });
  attempt("the parameters", [&] {
    in_portions(params_, [&](const TextPairs& params) { server_.log_params(params); });
  });
}

std::vector<MlflowPoint> MlflowSender::next_points() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
  changed_.wait_for(lock, kCollecting, [&] { return ending_; });
  const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMostMlflowMetrics));
  std::vector<MlflowPoint> points(waiting_.begin(), waiting_.begin() + count);
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  return points;
}

void MlflowSender::send_rest() {
  bool taken = true;
  for (const std::filesystem::path& file : end_.files) {
    const std::string name = file.filename();
    taken &= attempt(name, [&] { server_.upload(file, url_encoded(name), kCallSeconds); });
  }
  if (!end_.model.empty() && taken) send_model();
  if (!end_.model.empty() && !taken) lost_.emplace_back("the model directory");
  attempt("how the run ended", [&] { server_.end_run(end_.status); });
}

void MlflowSender::send_model() {
  log_.info("MLflow:           sending the model directory");
  attempt("the model directory", [&] {
    for (const auto& entry : std::filesystem::directory_iterator(end_.model)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.starts_with('.')) continue;
      server_.end_by(Clock::now() + kFlush);
      server_.upload(entry.path(), "model/" + url_encoded(name), /*timeout_s=*/0);
    }
  });
  server_.end_by(Clock::now() + kLastWord);
}

// False: `send` failed, and `what` (where it is not empty) is lost.
template <typename Send>
bool MlflowSender::attempt(const std::string& what, Send&& send) try {
  send();
  return true;
} catch (const std::exception& failure) {
  warn_once(failure.what());
  if (!what.empty()) lost_.push_back(what);
  return false;
}

void MlflowSender::warn_once(const std::string& reason) {
  if (std::exchange(warned_, true)) return;
  first_reason_ = reason;
  log_.warning("MLflow at " + server_.url() + " does not take all of this run: " + reason +
               ". Training is not affected.");
}

std::string MlflowSender::lost() const {
  std::string text;
  if (num_lost_ > 0) text = formatted("%zu of %zu points", num_lost_, num_points_);
  for (const std::string& what : lost_) text += (text.empty() ? "" : ", ") + what;
  if (text.empty()) return text;
  return text + " could not be sent" + (first_reason_.empty() ? "" : ": " + first_reason_);
}

}  // namespace kiln
