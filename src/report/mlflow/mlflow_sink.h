// A sink that sends a run to MLflow on its own thread, so that training never waits for a server.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "record/run_sink.h"
#include "report/mlflow/mlflow_server.h"

namespace kiln {

// Empty without MLFLOW_TRACKING_URI.
std::optional<MlflowSettings> mlflow_settings_of_environment();

// Sends a run on its own thread: parameters and tags once, metrics during training, and at the end
// the model's training.json, those of `files` that exist (without their pictures, unless it
// `sends_pictures`), and the status. Failures are logged as
// warnings and take no more memory than kMaxWaiting points.
class MlflowSink : public RunSink {
 public:
  // Throws Error for a malformed URL; does not check whether the server exists. The log must
  // outlive it.
  MlflowSink(MlflowSettings settings, std::vector<std::filesystem::path> files, bool sends_pictures,
             Log& log);
  ~MlflowSink() override;  // drops unsent data if the run has not ended

  std::string_view name() const override { return "MLflow"; }
  // Sends everything, even to a run given in the settings.
  void start(const RunStart& start) override;
  // Continues the run and sends nothing that the server already has.
  void resume(const RunRecord& so_far) override;
  void step(const StepRecord& step) override;
  void epoch(const EpochRecord& epoch, const ValidationDetails* details) override;
  void end(const RunRecord& run) override;
  std::string lost() const override;
  std::string state() const override;  // the run's id; empty until the server has answered

  // The steps of it, for what is not a training. All return immediately, but the last one takes at
  // most 10 seconds. If more than kMaxWaiting points are waiting, the oldest are dropped.
  void begin(TextPairs params, TextPairs tags);
  void add(std::vector<MlflowPoint> points);
  void finish(const char* status);  // "FINISHED", "FAILED" or "KILLED"

  static constexpr std::size_t kMaxWaiting = 10'000;

 private:
  void work(const std::stop_token& stop);
  void send(std::vector<MlflowPoint> points);
  // Waits for points; empty at the end.
  std::vector<MlflowPoint> next_points(const std::stop_token& stop);
  template <typename Send>
  bool attempt(const std::string& what, Send&& send);
  template <typename Item, typename Send>
  std::size_t deliver(std::span<const Item> items, std::string Item::*name, const Send& send);
  template <typename Item, typename Send>
  std::size_t deliver_all(const std::vector<Item>& items, std::string Item::*name, std::size_t most,
                          const Send& send);
  void deliver_pairs(const std::string& kind, const std::string& what, const TextPairs& pairs);
  void warn_once(const std::string& reason);

  std::vector<std::filesystem::path> files_;
  const bool sends_pictures_;
  Log& log_;
  TextPairs params_, tags_;
  bool resumes_ = false;
  std::string earlier_run_;        // the id of a run that resumes; empty: unknown
  std::vector<MlflowPoint> past_;  // what it reported before it was interrupted
  bool warned_ = false;            // from here to the mutex: used by the thread only
  bool open_ = false;
  std::vector<std::string> lost_;
  std::vector<std::string> refused_;  // names that the server does not accept
  std::string first_reason_;
  MlflowServer server_;
  const char* status_ = "FINISHED";  // set before the thread is stopped

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable_any changed_;
  std::deque<MlflowPoint> waiting_;
  std::size_t num_points_ = 0, num_lost_ = 0;
  std::string run_id_;

  std::jthread thread_;  // last: it uses the others
};

}  // namespace kiln
