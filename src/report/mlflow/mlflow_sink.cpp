#include "report/mlflow/mlflow_sink.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>
#include <span>

#include "base/files.h"
#include "base/system.h"
#include "base/text.h"
#include "record/run_summary.h"
#include "report/page/gallery.h"

namespace fs = std::filesystem;

namespace kiln {
namespace {

// Returns an environment variable or "", trimmed: secrets read from files often end with a newline.
std::string setting(const char* name) {
  return std::string(trimmed(environment(name)));
}

using Clock = PersistentHttp::Clock;

constexpr auto kCollecting = std::chrono::seconds(2);  // points are batched for this long
constexpr auto kFlush = std::chrono::seconds(10);

// A server that refuses more than these may refuse everything, and is asked no more about each.
constexpr std::size_t kMaxRefused = 20;

// An option of the name of a count is left out: MLflow takes one value of each name.
TextPairs params_of(const RunStart& start) {
  TextPairs params = start.options;
  std::erase_if(
      params, [](const auto& param) { return param.first == "ranks" || param.first == "classes"; });
  params.insert(params.end(), {{"model", start.model},
                               {"model parameters", std::to_string(start.num_parameters)},
                               {"ranks", std::to_string(start.num_ranks)},
                               {"global batch", std::to_string(start.global_batch)},
                               {"classes", std::to_string(start.data.classes.size())}});
  // MLflow servers before 2.0 and Azure ML reject empty values.
  std::erase_if(params, [](const auto& param) { return param.second.empty(); });
  return params;
}

TextPairs tags_of(const RunStart& start) {
  TextPairs tags = {{"device", start.device},
                    {"training data", start.data.train_path},
                    {"validation data", start.data.valid_path},
                    {"mlflow.source.name", "kiln train"}};
  for (const auto& [name, version] : start.versions) {
    tags.emplace_back(name == "kiln" ? "version" : name, version);
    if (name == "commit") tags.emplace_back("mlflow.source.git.commit", version);
  }
  return tags;
}

std::vector<MlflowPoint> points_of(const std::vector<Metric>& metrics, double time,
                                   long long step) {
  std::vector<MlflowPoint> points;
  points.reserve(metrics.size());
  for (const Metric& metric : metrics)
    points.push_back({metric.name, metric.value, static_cast<std::int64_t>(time * 1000), step});
  return points;
}

std::vector<MlflowPoint> points_of(const StepRecord& step) {
  return points_of(step_metrics(step), step.time, global_step(step));
}
std::vector<MlflowPoint> points_of(const EpochRecord& epoch) {
  return points_of(epoch_metrics(epoch), epoch.time, epoch.epoch);
}

// Returns the recall of each class that has images; empty if there are too many classes. If two
// classes would get the same metric name, the later one is named by its number.
std::vector<MlflowPoint> recalls_of(const RunRecord& run) {
  const std::vector<std::string>& classes = run.start.data.classes;
  constexpr std::size_t kMaxClasses = 20;  // Azure ML accepts 50 metric names per run
  if (classes.size() > kMaxClasses) return {};
  std::vector<Metric> recalls;
  std::set<std::string> names;
  for (const ClassScore& score : scores_by_label(run.details.confusion)) {
    if (score.images == 0) continue;
    std::string label = classes.at(score.label);
    std::ranges::replace(label, '/', '_');  // servers reject what looks like a path: "a/../b"
    std::string name = mlflow_name("Recall/class " + label);
    if (!names.insert(name).second) name = "Recall/number " + std::to_string(score.label);
    recalls.push_back({name, score.recall()});
  }
  return points_of(recalls, run.end.time, run.details.epoch);
}

}  // namespace

std::optional<MlflowSettings> mlflow_settings_of_environment() {
  MlflowSettings settings;
  settings.tracking_uri = setting("MLFLOW_TRACKING_URI");
  if (settings.tracking_uri.empty()) return {};
  const std::string insecure = in_small_letters(setting("MLFLOW_TRACKING_INSECURE_TLS"));
  settings.login = {.token = setting("MLFLOW_TRACKING_TOKEN"),
                    .user = setting("MLFLOW_TRACKING_USERNAME"),
                    .password = setting("MLFLOW_TRACKING_PASSWORD"),
                    .ca_file = setting("MLFLOW_TRACKING_SERVER_CERT_PATH"),
                    .insecure_tls = insecure == "true" || insecure == "1"};
  settings.run_id = setting("MLFLOW_RUN_ID");
  settings.experiment_id = setting("MLFLOW_EXPERIMENT_ID");
  settings.experiment_name = setting("MLFLOW_EXPERIMENT_NAME");
  return settings;
}

MlflowSink::MlflowSink(MlflowSettings settings, std::vector<fs::path> files, bool sends_pictures,
                       Log& log)
    : files_(std::move(files)),
      sends_pictures_(sends_pictures),
      log_(log),
      server_(std::move(settings), [this](const std::string& reason) { warn_once(reason); }) {}

MlflowSink::~MlflowSink() {
  server_.end_by(Clock::now());
  const std::lock_guard lock(mutex_);
  waiting_.clear();
  files_.clear();
}

void MlflowSink::start(const RunStart& start) {
  begin(params_of(start), tags_of(start));
}

void MlflowSink::resume(const RunRecord& so_far) {
  resumes_ = true;
  for (const auto& [sink, state] : so_far.sink_states)
    if (sink == name()) earlier_run_ = state;
  const auto add = [&](std::vector<MlflowPoint> points) {
    std::move(points.begin(), points.end(), std::back_inserter(past_));
  };
  for (const StepRecord& step : so_far.steps) add(points_of(step));
  for (const EpochRecord& epoch : so_far.epochs) add(points_of(epoch));
  num_points_ = past_.size();
  start(so_far.start);
}

void MlflowSink::step(const StepRecord& step) {
  add(points_of(step));
}

void MlflowSink::epoch(const EpochRecord& epoch, const ValidationDetails* /*details*/) {
  add(points_of(epoch));
}

void MlflowSink::end(const RunRecord& run) {
  add(recalls_of(run));
  // If no epoch has finished, an existing page may be an earlier run's.
  if (run.epochs.empty()) files_.clear();
  if (!run.end.model_path.empty()) files_.push_back(fs::path(run.end.model_path) / "training.json");
  std::erase_if(files_, [](const auto& file) { return !is_there(file); });
  finish(run.end.status == RunStatus::kFailed    ? "FAILED"
         : run.end.status == RunStatus::kStopped ? "KILLED"
                                                 : "FINISHED");
}

void MlflowSink::begin(TextPairs params, TextPairs tags) {
  params_ = std::move(params);
  tags_ = std::move(tags);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void MlflowSink::add(std::vector<MlflowPoint> points) {
  const std::lock_guard lock(mutex_);
  num_points_ += points.size();
  std::move(points.begin(), points.end(), std::back_inserter(waiting_));
  for (; waiting_.size() > kMaxWaiting; ++num_lost_) waiting_.pop_front();
  changed_.notify_one();
}

void MlflowSink::finish(const char* status) {
  server_.end_by(Clock::now() + kFlush);
  status_ = status;
  thread_.request_stop();
  thread_.join();
}

void MlflowSink::work(const std::stop_token& stop) {
  open_ = attempt("", [&] {
    server_.open_run(earlier_run_);
    log_.info("MLflow:           " + server_.run_page());
  });
  if (const std::lock_guard lock(mutex_); open_) run_id_ = server_.run_id();
  if (open_) {
    deliver_pairs("tags", "tags", tags_);
    if (resumes_)
      std::erase_if(params_, [&](const auto& param) {
        return server_.param_names().contains(mlflow_name(param.first));
      });
    deliver_pairs("params", "parameters", params_);
  }
  if (resumes_) send(std::move(past_));
  for (;;) {
    std::vector<MlflowPoint> points = next_points(stop);
    if (points.empty()) break;
    send(std::move(points));
  }
  if (!open_) return;
  for (const fs::path& file : files_) {
    const std::string name = file.filename();
    attempt(name, [&] {
      std::string bytes = read_file(file);
      if (!sends_pictures_ && file.extension() == ".html") remove_pictures(&bytes);
      server_.upload(std::move(bytes), url_encoded(name));
    });
  }
  attempt("how the run ended", [&] { server_.end_run(status_); });
}

void MlflowSink::send(std::vector<MlflowPoint> points) {
  if (resumes_)  // the server may have those up to the latest step of their metric
    std::erase_if(points, [&](const MlflowPoint& point) {
      const auto latest = server_.latest_steps().find(mlflow_name(point.name));
      return latest != server_.latest_steps().end() && point.step <= latest->second;
    });
  std::size_t num_lost = points.size();
  if (open_) {
    std::erase_if(points, [&](const MlflowPoint& point) {
      return std::ranges::count(refused_, point.name) > 0;
    });
    num_lost -= points.size();
    num_lost += deliver_all(points, &MlflowPoint::name, kMaxMlflowMetrics,
                            [&](std::span<const MlflowPoint> portion) {
                              server_.log_batch(log_metrics_json(server_.run_id(), portion));
                            });
  }
  const std::lock_guard lock(mutex_);
  num_lost_ += num_lost;
}

// Sends the items; those that are refused together, in halves, so that only what is refused alone
// is lost. Returns how many were lost.
template <typename Item, typename Send>
std::size_t MlflowSink::deliver(std::span<const Item> items, std::string Item::*name,
                                const Send& send) {
  try {
    send(items);
    return 0;
  } catch (const MlflowFailure& failure) {
    if (failure.status != 400) {
      warn_once(failure.what());
      return items.size();
    }
    const bool is_known = refused_.size() >= kMaxRefused;
    if (items.size() > 1 && !is_known) {
      const std::size_t half = items.size() / 2;
      const std::size_t num_lost = deliver(items.first(half), name, send);
      return num_lost + deliver(items.subspan(half), name, send);
    }
    if (!is_known) refused_.push_back(items.front().*name);
    warn_once("'" + items.front().*name + "' was refused: " + failure.what());
  } catch (const std::exception& failure) {
    warn_once(failure.what());
  }
  return items.size();
}

template <typename Item, typename Send>
std::size_t MlflowSink::deliver_all(const std::vector<Item>& items, std::string Item::*name,
                                    std::size_t most, const Send& send) {
  std::size_t num_lost = 0;
  for (std::size_t i = 0; i < items.size(); i += most)
    num_lost += deliver(std::span(items).subspan(i, std::min(items.size() - i, most)), name, send);
  return num_lost;
}

void MlflowSink::deliver_pairs(const std::string& kind, const std::string& what,
                               const TextPairs& pairs) {
  const std::size_t num_lost =
      deliver_all(pairs, &TextPairs::value_type::first, kMaxMlflowPairs,
                  [&](std::span<const TextPairs::value_type> portion) {
                    server_.log_batch(log_pairs_json(server_.run_id(), kind,
                                                     TextPairs(portion.begin(), portion.end())));
                  });
  if (num_lost > 0)
    lost_.push_back(num_lost == pairs.size()
                        ? "the " + what
                        : formatted("%zu of %zu ", num_lost, pairs.size()) + what);
}

std::vector<MlflowPoint> MlflowSink::next_points(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
  changed_.wait_for(lock, stop, kCollecting, [] { return false; });
  const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kMaxMlflowMetrics));
  std::vector<MlflowPoint> points(waiting_.begin(), waiting_.begin() + count);
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  return points;
}

// Returns false if `send` failed; `what`, unless empty, is then reported as lost.
template <typename Send>
bool MlflowSink::attempt(const std::string& what, Send&& send) try {
  send();
  return true;
} catch (const std::exception& failure) {
  warn_once(failure.what());
  if (!what.empty()) lost_.push_back(what);
  return false;
}

void MlflowSink::warn_once(const std::string& reason) {
  if (std::exchange(warned_, true)) return;
  first_reason_ = reason;
  log_.warning("MLflow at " + server_.url() + " did not accept all data of this run: " + reason +
               ". Training is not affected.");
}

std::string MlflowSink::state() const {
  const std::lock_guard lock(mutex_);
  return run_id_;
}

std::string MlflowSink::lost() const {
  std::string text;
  if (num_lost_ > 0) text = formatted("%zu of %zu points", num_lost_, num_points_);
  for (const std::string& what : lost_) text += (text.empty() ? "" : ", ") + what;
  if (text.empty()) return text;
  text += " could not be sent";
  if (!refused_.empty()) text += " (refused: " + quoted_names(refused_, kMaxRefused) + ")";
  return text + (first_reason_.empty() ? "" : ": " + first_reason_);
}

}  // namespace kiln
