#include "report/mlflow/mlflow_server.h"

#include <algorithm>
#include <cctype>
#include <system_error>

#include "base/error.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "record/run_json.h"

namespace kiln {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kUserError, "MLFLOW_TRACKING_URI " + what +
                                         ", so this run is not logged to MLflow. Set it to the URL "
                                         "of an MLflow server: http://, https:// or azureml://.");
}

// Whether `c` is an ASCII letter or digit, or one of `signs`.
bool is_plain(char c, std::string_view signs) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && (std::isalnum(byte) != 0 || signs.find(c) != signs.npos);
}

constexpr const char* kProxyScheme = "mlflow-artifacts:/";

std::int64_t milliseconds_now() {
  return static_cast<std::int64_t>(unix_seconds() * 1000);
}

// Returns the error message in a JSON response; empty if there is none. Credentials, which the
// server may have echoed, are masked.
std::string message_of(const std::string& body, const HttpLogin& login) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("message") || !json["message"].is_string()) return "";
  std::string text = json["message"].get<std::string>();
  for (const std::string& secret :
       {login.token, login.password, base64(login.user + ":" + login.password)})
    for (std::size_t at = 0; !secret.empty() && (at = text.find(secret, at)) != text.npos; at += 3)
      text.replace(at, secret.size(), "***");
  return cut_to_bytes(for_people(text), 300);
}

}  // namespace

HttpAnswer PersistentHttp::call(HttpCall call) {
  constexpr int kAttemptsUntilComplaint = 3;
  constexpr double kFirstPause = 0.5, kLongestPause = 30;
  const double timeout_s = call.timeout_s;
  HttpAnswer answer{.failure = "timed out"};
  double pause = kFirstPause;
  for (int attempt = 1;; ++attempt) {
    double left = 0;
    {
      const std::lock_guard lock(mutex_);
      left = std::chrono::duration<double>(end_ - Clock::now()).count();
    }
    if (left <= 0) return answer;
    call.timeout_s = std::min(timeout_s, left);
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

bool PersistentHttp::wait(double pause, double at_least) {
  static constexpr double kLongestRetryAfter = 3600;
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

std::string mlflow_server_url(const std::string& tracking_uri, std::string* user,
                              std::string* password) {
  const std::size_t colon = tracking_uri.find("://");
  const std::string scheme = tracking_uri.substr(0, std::min(colon, tracking_uri.find(':')));
  if (scheme.starts_with("databricks"))
    refuse("names a workspace of Databricks, whose logins are not supported");
  if (colon == std::string::npos && scheme != "file" && !scheme.starts_with('/') &&
      (tracking_uri.find_first_of(":@") != std::string::npos || scheme == "localhost"))
    refuse("is a host without http:// or https:// before it");
  if (scheme == "file" || colon == std::string::npos)
    refuse("names a folder, not a server: MLflow's file stores are not supported");
  if (scheme != "http" && scheme != "https" && scheme != "azureml")
    refuse("begins with '" + for_people(scheme) + ":', which is not supported");
  std::string rest = tracking_uri.substr(colon + 3);
  if (rest.find('@', std::min(rest.find_first_of("/?#"), rest.size())) != std::string::npos)
    refuse(
        "has an @ after the host and cannot be parsed. In a user name or password, write / as %2F, "
        "? as %3F, # as %23 and @ as %40");
  rest.resize(std::min(rest.find_first_of("?#"), rest.size()));
  while (rest.ends_with('/')) rest.pop_back();
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at != std::string::npos) {
    const std::string login = rest.substr(0, at);
    const std::size_t divider = std::min(login.find(':'), login.size());
    *user = url_decoded(login.substr(0, divider));
    *password = url_decoded(login.substr(std::min(divider + 1, login.size())));
    rest = rest.substr(at + 1);
  }
  if (rest.empty() || rest.front() == '/') refuse("has no host");
  return (scheme == "azureml" ? "https" : scheme) + "://" + rest;
}

std::string mlflow_name(std::string_view text) {
  constexpr std::size_t kMaxBytes = 250;
  std::string name(text.substr(0, kMaxBytes));
  for (char& c : name)
    if (!is_plain(c, "_-.:/ ")) c = '_';
  return name;
}

std::string log_metrics_json(const std::string& run_id, std::span<const MlflowPoint> points) {
  const Json list = list_json(points, [](const MlflowPoint& point) -> Json {
    return {{"key", mlflow_name(point.name)},
            {"value", as_json(point.value)},  // a bare NaN would be stored as 0
            {"timestamp", point.milliseconds},
            {"step", point.step}};
  });
  return json_text({{"run_id", run_id}, {"metrics", list}});
}

std::string log_pairs_json(const std::string& run_id, const std::string& kind,
                           const TextPairs& pairs) {
  const std::size_t max_bytes = kind == "params" ? 500 : 1000;
  const Json list = list_json(pairs, [&](const auto& pair) -> Json {
    return {{"key", mlflow_name(pair.first)},
            {"value", cut_to_bytes(for_people(pair.second), max_bytes)}};
  });
  return json_text({{"run_id", run_id}, {kind, list}});
}

std::string url_encoded(std::string_view text, std::string_view plain_signs) {
  std::string out;
  for (const char c : text)
    out += is_plain(c, plain_signs) ? std::string(1, c)
                                    : formatted("%%%02X", static_cast<unsigned char>(c));
  return out;
}

MlflowServer::MlflowServer(MlflowSettings settings,
                           std::function<void(const std::string&)> complain)
    : settings_(std::move(settings)),
      url_(mlflow_server_url(settings_.tracking_uri, &settings_.login.user,
                             &settings_.login.password)),
      http_(settings_.login, std::move(complain)) {}

void MlflowServer::fail(const HttpAnswer& answer) const {
  std::string text = failure_text(answer);
  if (const std::string message = message_of(answer.body, settings_.login); !message.empty())
    text += " (" + message + ")";
  if (!answer.location.empty())
    text += ": it redirects, which is not followed, to " + without_secrets(answer.location) +
            " (set MLFLOW_TRACKING_URI to that server)";
  if (answer.status == 401 || answer.status == 403)
    text += ": check MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD";
  throw MlflowFailure(text, answer.status);
}

Json MlflowServer::ask(const std::string& path, std::string json) {
  const HttpAnswer answer =
      http_.call({.method = json.empty() ? HttpCall::Method::kGet : HttpCall::Method::kPost,
                  .url = url_ + "/api/2.0/mlflow/" + path,
                  .body = std::move(json)});
  if (!answer.ok()) fail(answer);
  Json response = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!response.is_object())
    throw MlflowFailure("the response is not JSON: a login page, or a different server");
  return response;
}

std::optional<Json> MlflowServer::find(const std::string& path) try {
  return ask(path);
} catch (const MlflowFailure& failure) {
  if (failure.status != 404) throw;
  return std::nullopt;
}

std::string MlflowServer::experiment_of_name() {
  const std::string& name = settings_.experiment_name;
  const std::string query = "experiments/get-by-name?experiment_name=" + url_encoded(name);
  std::optional<Json> found = find(query);
  try {
    if (!found)
      return ask("experiments/create", json_text({{"name", name}}))
          .at("experiment_id")
          .get<std::string>();
  } catch (const MlflowFailure& refused) {
    found = find(query);  // unless another job created it first
    if (!found) throw MlflowFailure(refused.what());
  }
  return found->at("experiment").at("experiment_id").get<std::string>();
}

void MlflowServer::open_run(const std::string& earlier) try {
  Json answer;
  std::optional<Json> before;
  if (settings_.run_id.empty() && !earlier.empty())
    before = find("runs/get?run_id=" + url_encoded(earlier));
  if (before && before->at("run").at("info").value("lifecycle_stage", "active") == "deleted")
    before.reset();
  if (!settings_.run_id.empty()) {
    answer = ask("runs/get?run_id=" + url_encoded(settings_.run_id));
  } else if (before) {
    answer = *std::move(before);
    ask("runs/update", json_text({{"run_id", earlier}, {"status", "RUNNING"}}));
  } else {
    std::string experiment = settings_.experiment_id;
    if (experiment.empty() && !settings_.experiment_name.empty()) experiment = experiment_of_name();
    if (experiment.empty()) experiment = "0";
    answer = ask("runs/create",
                 json_text({{"experiment_id", experiment}, {"start_time", milliseconds_now()}}));
  }
  const Json& run = answer.at("run");
  const Json& info = run.at("info");
  run_id_ = info.at("run_id").get<std::string>();
  experiment_id_ = info.at("experiment_id").get<std::string>();
  artifact_uri_ = info.value("artifact_uri", "");
  if (run.contains("data")) read_contents(run.at("data"));
} catch (const MlflowFailure& failure) {
  if (failure.status != 404) throw;
  const std::string what = failure.what();
  if (settings_.run_id.empty()) throw MlflowFailure(what);
  throw MlflowFailure(what + ": MLFLOW_RUN_ID must name a run of this server, or be unset");
} catch (const Json::exception&) {
  throw MlflowFailure("the response has no run: check that this is an MLflow server");
}

// Servers omit empty lists, and may write 64-bit integers as strings, as Protocol Buffers do in
// JSON.
void MlflowServer::read_contents(const Json& data) {
  for (const Json& metric : data.value("metrics", Json::array())) {
    const Json step = metric.value("step", Json());
    std::int64_t& latest = latest_steps_[metric.at("key").get<std::string>()];
    if (step.is_number_integer()) latest = step.get<std::int64_t>();
    if (step.is_string()) latest = std::atoll(step.get<std::string>().c_str());
  }
  for (const Json& param : data.value("params", Json::array()))
    param_names_.insert(param.at("key").get<std::string>());
}

std::string MlflowServer::run_page() const {
  return url_ + "/#/experiments/" + experiment_id_ + "/runs/" + run_id_;
}

void MlflowServer::log_batch(const std::string& json) {
  ask("runs/log-batch", json);
}

void MlflowServer::upload(std::string bytes, const std::string& name) {
  if (!artifact_uri_.starts_with(kProxyScheme) ||
      artifact_uri_.starts_with(std::string(kProxyScheme) + "/"))
    throw MlflowFailure("the run stores its artifacts under '" +
                        for_people(artifact_uri_.substr(0, artifact_uri_.find(':'))) +
                        ":', but Kiln supports only the server's artifact proxy");
  const std::string place =
      url_encoded(artifact_uri_.substr(std::string_view(kProxyScheme).size()), kPathSigns);
  const HttpAnswer answer =
      http_.call({.method = HttpCall::Method::kPut,
                  .url = url_ + "/api/2.0/mlflow-artifacts/artifacts/" + place + "/" + name,
                  .body = std::move(bytes)});
  if (!answer.ok()) fail(answer);
}

void MlflowServer::end_run(const char* status) {
  if (!settings_.run_id.empty()) return;
  ask("runs/update",
      json_text({{"run_id", run_id_}, {"status", status}, {"end_time", milliseconds_now()}}));
}

}  // namespace kiln
