// The sink that sends a run to MLflow from a thread of its own, so that training never waits for a
// server.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "report/mlflow/mlflow_server.h"
#include "report/record/run_sink.h"

namespace kiln {

// Empty without MLFLOW_TRACKING_URI.
std::optional<MlflowSettings> mlflow_settings_of_environment();

// Sends a run to MLflow from a thread of its own, so that training never waits for a server.
struct MlflowEnd {
  const char* status = "FINISHED";  // or FAILED, KILLED
  std::vector<std::filesystem::path> files;
  std::filesystem::path model;  // the folder to send; empty: none
};

// What a resumed run reported before it was interrupted.
struct MlflowPast {
  std::string run_id;  // empty: not known
  std::vector<MlflowPoint> points;
};

// The points that the server lacks: beyond the latest step of their metric.
std::vector<MlflowPoint> missing_points(std::vector<MlflowPoint> points,
                                        const std::map<std::string, std::int64_t>& latest_steps);

// add() and end() come from one thread. The log must outlive it.
class MlflowSender {
 public:
  // Throws Error for a malformed URL; does not check whether the server exists.
  // With `past` it continues that run and sends nothing that the server already has; without, a
  // given run gets everything.
  MlflowSender(MlflowSettings settings, TextPairs params, TextPairs tags, Log& log,
               std::optional<MlflowPast> past = {});
  ~MlflowSender();  // without end(): drops unsent data
  MlflowSender(const MlflowSender&) = delete;
  MlflowSender& operator=(const MlflowSender&) = delete;

  // Returns immediately. Beyond kMostWaiting points the oldest are dropped.
  void add(std::vector<MlflowPoint> points);
  // Takes at most 10 seconds, plus the upload of the model, if any.
  void end(MlflowEnd end);
  // What could not be sent, and why; call after end(). Empty: nothing.
  std::string lost() const;
  std::string run_id() const;  // empty until the server has answered

  static constexpr std::size_t kMostWaiting = 10'000;

 private:
  void work();
  void send_description();
  void send(std::vector<MlflowPoint> points);
  std::vector<MlflowPoint> next_points();  // waits; none: the end
  void send_rest();
  void send_model();
  template <typename Send>
  bool attempt(const std::string& what, Send&& send);
  void warn_once(const std::string& reason);

  TextPairs params_;
  const TextPairs tags_;
  Log& log_;
  bool warned_ = false;  // this and what follows until the mutex: of the thread
  bool open_ = false;
  std::optional<MlflowPast> past_;
  std::vector<std::string> lost_;
  std::string first_reason_;
  MlflowServer server_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<MlflowPoint> waiting_;
  std::size_t num_points_ = 0, num_lost_ = 0;
  bool ending_ = false;
  std::string run_id_;
  MlflowEnd end_;

  std::thread thread_;
};

// A run on an MLflow tracking server: parameters and tags once, metrics while it trains, files and
// its status at the end.
struct MlflowFiles {
  std::vector<std::filesystem::path> files;  // sent at the end, if they exist
  bool whole_model = false;                  // else only its training.json
};

// The log must outlive it. Throws Error for a malformed URL; later server failures are logged as
// warnings and cost at most the memory for MlflowSender::kMostWaiting points.
std::unique_ptr<RunSink> make_mlflow_sink(MlflowSettings settings, MlflowFiles files, Log& log);

}  // namespace kiln
