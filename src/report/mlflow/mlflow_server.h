// Client for one run on an MLflow tracking server over REST
// (https://mlflow.org/docs/latest/rest-api.html), within the limits of the open-source server and,
// where lower, of Azure ML.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "base/http.h"
#include "record/run_record.h"

namespace kiln {

// HTTP calls with retries of failures that may pass (obeying Retry-After), with a backoff from half
// a second to half a minute.
class PersistentHttp {
 public:
  using Clock = std::chrono::steady_clock;

  // `complain` is called with the reason, on the calling thread, after three failed attempts.
  PersistentHttp(const HttpLogin& login, std::function<void(const std::string&)> complain)
      : client_(login), complain_(std::move(complain)) {}

  // Returns the first final response, or the last failure if no time is left. One thread.
  HttpAnswer call(HttpCall call);

  // From now on no attempt goes on after `end`. Any thread.
  void end_by(Clock::time_point end);

 private:
  // Waits for `pause`, shortened near the end but not below `at_least`. Returns false if the end
  // comes before that.
  bool wait(double pause, double at_least);

  HttpClient client_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  Clock::time_point end_ = Clock::time_point::max();
};

inline constexpr std::size_t kMaxMlflowMetrics = 250;  // per call
inline constexpr std::size_t kMaxMlflowPairs = 100;    // parameters or tags per call

struct MlflowPoint {
  std::string name;
  double value = 0;
  std::int64_t milliseconds = 0;  // since 1970, UTC
  std::int64_t step = 0;
};

// The base URL for REST calls to `tracking_uri`, without a trailing slash. A user and password in
// it are moved to the last two arguments. Throws Error kUserError for stores that are not servers.
std::string mlflow_server_url(const std::string& tracking_uri, std::string* user,
                              std::string* password);

// Converts `text` to a valid name: only letters, digits and `_-.: /`, at most 250 characters.
std::string mlflow_name(std::string_view text);

std::string log_metrics_json(const std::string& run_id, std::span<const MlflowPoint> points);
// `kind`: "params" or "tags".
std::string log_pairs_json(const std::string& run_id, const std::string& kind,
                           const TextPairs& pairs);

// Percent-encodes bytes that are not allowed in a URL: all but letters, digits and `plain_signs`.
std::string url_encoded(std::string_view text, std::string_view plain_signs = "-._~");
// `plain_signs` of a path that may be partly encoded already.
inline constexpr std::string_view kPathSigns = "-._~/%";

// Settings that MLflow's own clients read from the environment.
struct MlflowSettings {
  std::string tracking_uri = {};
  HttpLogin login = {};
  std::string run_id = {};  // empty: creates a run, which end_run() ends
  // For a new run; both empty: the server's default.
  std::string experiment_id = {}, experiment_name = {};
};

// A failed request. what() is part of a sentence and contains no secrets.
struct MlflowFailure : std::runtime_error {
  explicit MlflowFailure(const std::string& what, int http_status = 0)
      : std::runtime_error(what), status(http_status) {}
  // Of the response: 400 if the server does not accept what a request holds, such as a name; 0:
  // none, or a response that cannot be used.
  int status;
};

// All calls except end_by() come from one thread, wait for the server and throw MlflowFailure.
class MlflowServer {
 public:
  // `complain`: see PersistentHttp. Throws Error for a malformed URL.
  MlflowServer(MlflowSettings settings, std::function<void(const std::string&)> complain);

  const std::string& url() const { return url_; }
  // Call first. Continues the run given in the settings. Otherwise reopens the run `earlier` if the
  // server still has it, or else creates a run, and its experiment if needed.
  void open_run(const std::string& earlier = {});
  const std::string& run_id() const { return run_id_; }
  std::string run_page() const;  // for a browser
  // The state of the run when it was opened: the latest step of each metric, and the names of its
  // parameters, whose values cannot change.
  const std::map<std::string, std::int64_t>& latest_steps() const { return latest_steps_; }
  const std::set<std::string>& param_names() const { return param_names_; }

  void log_batch(const std::string& json);  // log_metrics_json() or log_pairs_json()
  void upload(std::string bytes, const std::string& name);
  void end_run(const char* status);  // a run given in the settings is left open

  // PersistentHttp::end_by(); any thread.
  void end_by(PersistentHttp::Clock::time_point end) { http_.end_by(end); }

 private:
  // GET; with `json`, POST.
  nlohmann::ordered_json ask(const std::string& path, std::string json = {});
  std::string experiment_of_name();
  // GET; nothing if the server does not have it.
  std::optional<nlohmann::ordered_json> find(const std::string& path);
  void read_contents(const nlohmann::ordered_json& run);
  [[noreturn]] void fail(const HttpAnswer& answer) const;

  MlflowSettings settings_;
  std::string url_;
  PersistentHttp http_;
  std::string run_id_, experiment_id_, artifact_uri_;
  std::map<std::string, std::int64_t> latest_steps_;
  std::set<std::string> param_names_;
};

}  // namespace kiln
