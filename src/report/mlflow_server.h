// What one run says to an MLflow tracking server over REST
// (https://mlflow.org/docs/latest/rest-api.html).
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <stdexcept>
#include <string>

#include "report/mlflow_text.h"
#include "report/persistent_http.h"

namespace kiln {

// As MLflow's own clients read them from the environment.
struct MlflowSettings {
  std::string tracking_uri = {};
  HttpLogin login = {};
  std::string run_id = {};  // empty: a run is created, and ended
  // Of a run that is created; both empty: the server's default.
  std::string experiment_id = {}, experiment_name = {};
};

// Why the server did not do what was asked, as a part of a sentence, without secrets.
class MlflowFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Every call but end_by() comes from one thread, waits for the server, and throws MlflowFailure.
class MlflowServer {
 public:
  // `complain` hears why a call is tried again and again. Throws Error for an address that is none.
  MlflowServer(MlflowSettings settings, std::function<void(const std::string&)> complain);

  const std::string& url() const { return url_; }
  // Must come first. Takes the given run, or creates one in an experiment that is created if need
  // be.
  void open_run();
  std::string run_page() const;  // for a browser

  void log_metrics(std::span<const MlflowPoint> points);
  void log_params(const TextPairs& params);
  void log_tags(const TextPairs& tags);
  // `timeout_s` as HttpCall's.
  void upload(const std::filesystem::path& file, const std::string& name, double timeout_s);
  void end_run(const char* status);  // a run that was given stays as it is

  // PersistentHttp::end_by(); any thread.
  void end_by(PersistentHttp::Clock::time_point end) { http_.end_by(end); }

 private:
  nlohmann::ordered_json ask(HttpCall call);
  nlohmann::ordered_json get(const std::string& path);
  nlohmann::ordered_json post(const std::string& path, std::string json);
  std::string experiment_of_name();
  [[noreturn]] void fail(const HttpAnswer& answer) const;

  MlflowSettings settings_;
  std::string url_;
  PersistentHttp http_;
  std::string run_id_, experiment_id_, artifact_uri_;
};

}  // namespace kiln
