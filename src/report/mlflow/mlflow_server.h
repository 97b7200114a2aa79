// Client for one run on an MLflow tracking server over REST
// (https://mlflow.org/docs/latest/rest-api.html), within the limits of the open-source server and,
// where lower, of Azure ML.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/mlflow/http.h"
#include "report/record/run_record.h"

namespace kiln {

inline constexpr std::size_t kMostMlflowMetrics = 250;  // a call
inline constexpr std::size_t kMostMlflowPairs = 100;    // parameters or tags a call

struct MlflowPoint {
  std::string name;
  double value = 0;
  std::int64_t milliseconds = 0;  // since 1970, UTC
  std::int64_t step = 0;
};

// The base URL of REST calls for a MLFLOW_TRACKING_URI, without a trailing slash. User and password
// are moved to the last two arguments. Throws Error kUserError for stores that are not servers.
std::string mlflow_server_url(const std::string& tracking_uri, std::string* user,
                              std::string* password);

// Only letters, digits and `_-.: /`, at most 250 characters.
std::string mlflow_name(std::string_view text);

std::string log_metrics_json(const std::string& run_id, std::span<const MlflowPoint> points);
std::string log_params_json(const std::string& run_id, const TextPairs& params);
std::string log_tags_json(const std::string& run_id, const TextPairs& tags);

// Percent-encodes bytes that are not allowed in a URL.
std::string url_encoded(std::string_view text);
// The same for a path that may be partly encoded already.
std::string url_path_encoded(std::string_view path);

// Client for one run on an MLflow tracking server.

// As MLflow's own clients read them from the environment.
struct MlflowSettings {
  std::string tracking_uri = {};
  HttpLogin login = {};
  std::string run_id = {};  // empty: a run is created, and ended
  // For a new run; both empty: the server's default.
  std::string experiment_id = {}, experiment_name = {};
};

// Why a request failed, as part of a sentence, without secrets.
class MlflowFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every call except end_by() comes from one thread, waits for the server, and throws MlflowFailure.
class MlflowServer {
 public:
  // `complain` is called with the reason for repeated retries. Throws Error for a malformed URL.
  MlflowServer(MlflowSettings settings, std::function<void(const std::string&)> complain);

  const std::string& url() const { return url_; }
  // Call it first. Continues the given run; else the run `earlier`, if the server still has it,
  // which is running again; else creates one, and its experiment if needed.
  void open_run(const std::string& earlier = {});
  const std::string& run_id() const { return run_id_; }
  std::string run_page() const;  // for a browser
  // Of the run as it was opened: the latest step of each metric, and the names of its parameters,
  // which keep their first values.
  const std::map<std::string, std::int64_t>& latest_steps() const { return latest_steps_; }
  const std::set<std::string>& param_names() const { return param_names_; }

  void log_metrics(std::span<const MlflowPoint> points);
  void log_params(const TextPairs& params);
  void log_tags(const TextPairs& tags);
  // The last two as in HttpCall.
  void upload(const std::filesystem::path& file, const std::string& name, double timeout_s,
              bool is_long = false);
  void end_run(const char* status);  // a given run is left open

  // PersistentHttp::end_by(); any thread.
  void end_by(PersistentHttp::Clock::time_point end) { http_.end_by(end); }

 private:
  nlohmann::ordered_json ask(HttpCall call);
  nlohmann::ordered_json get(const std::string& path);
  nlohmann::ordered_json post(const std::string& path, std::string json);
  std::string experiment_of_name();
  nlohmann::ordered_json created_run();
  // False: the server does not have it, or it was deleted.
  bool find_run(const std::string& run_id, nlohmann::ordered_json* answer);
  void note_contents(const nlohmann::ordered_json& run);
  [[noreturn]] void fail(const HttpAnswer& answer) const;

  MlflowSettings settings_;
  std::string url_;
  PersistentHttp http_;
  std::string run_id_, experiment_id_, artifact_uri_;
  std::map<std::string, std::int64_t> latest_steps_;
  std::set<std::string> param_names_;
};

}  // namespace kiln
