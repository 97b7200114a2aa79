// A sink that sends a run to MLflow on its own thread, so that training never waits for a server.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "record/run_sink.h"
#include "report/mlflow/mlflow_server.h"

namespace kiln {

// Empty without MLFLOW_TRACKING_URI.
std::optional<MlflowSettings> mlflow_settings_of_environment();

// What to send at the end of a run.
struct MlflowEnd {
  const char* status = "FINISHED";  // or FAILED, KILLED
  std::vector<std::filesystem::path> files;
};

// What a resumed run reported before it was interrupted.
struct MlflowPast {
  std::string run_id;  // empty: unknown
  std::vector<MlflowPoint> points;
};

// Sends a run on its own thread; add() and end() come from one other. The log must outlive it.
class MlflowSender {
 public:
  // Throws Error for a malformed URL; does not check whether the server exists. With `past` it
  // continues that run and sends nothing that the server already has. Otherwise it sends
  // everything, even to a run given in the settings.
  MlflowSender(MlflowSettings settings, TextPairs params, TextPairs tags, Log& log,
               std::optional<MlflowPast> past = {});
  ~MlflowSender();  // drops unsent data if end() was not called
  MlflowSender(const MlflowSender&) = delete;
  MlflowSender& operator=(const MlflowSender&) = delete;

  // Returns immediately. If more than kMaxWaiting points are waiting, the oldest are dropped.
  void add(std::vector<MlflowPoint> points);
  // Takes at most 10 seconds.
  void end(MlflowEnd end);
  // What could not be sent, and why; empty if nothing was lost. Call after end().
  std::string lost() const;
  std::string run_id() const;  // empty until the server has answered

  static constexpr std::size_t kMaxWaiting = 10'000;

 private:
  void work();
  void send(std::vector<MlflowPoint> points);
  std::vector<MlflowPoint> next_points();  // waits for points; empty at the end
  template <typename Send>
  bool attempt(const std::string& what, Send&& send);
  template <typename Item, typename Send>
  std::size_t deliver(std::span<const Item> items, std::string Item::*name, const Send& send);
  template <typename Item, typename Send>
  std::size_t deliver_all(const std::vector<Item>& items, std::string Item::*name, std::size_t most,
                          const Send& send);
  void deliver_pairs(const std::string& kind, const std::string& what, const TextPairs& pairs);
  void warn_once(const std::string& reason);

  TextPairs params_;
  const TextPairs tags_;
  Log& log_;
  bool warned_ = false;  // from here to the mutex: used by the thread only
  bool open_ = false;
  std::optional<MlflowPast> past_;
  std::vector<std::string> lost_;
  std::vector<std::string> refused_;  // names that the server does not accept
  std::string first_reason_;
  MlflowServer server_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<MlflowPoint> waiting_;
  std::size_t num_points_ = 0, num_lost_ = 0;
  bool ending_ = false;
  std::string run_id_;
  MlflowEnd end_;

  std::thread thread_;
};

// Sends parameters and tags once, metrics during training, and at the end the model's
// training.json, those of `files` that exist, and the status. The log must outlive it. Throws Error
// for a malformed URL. Later failures are logged as warnings and take no more memory than
// MlflowSender::kMaxWaiting points.
std::unique_ptr<RunSink> make_mlflow_sink(MlflowSettings settings,
                                          std::vector<std::filesystem::path> files, Log& log);

}  // namespace kiln
