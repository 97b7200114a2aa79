#include "report/mlflow_text.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/text.h"
#include "report/json_text.h"

namespace kiln {
namespace {

constexpr std::size_t kMostNameBytes = 250, kMostParamBytes = 500, kMostTagBytes = 1000;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kUserError, "MLFLOW_TRACKING_URI " + what +
                                         ", so this run is not sent to MLflow. Give it the address "
                                         "of an MLflow server: http://, https:// or azureml://.");
}

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                         std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    out += escaped ? static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16))
                   : text[i];
    if (escaped) i += 2;
  }
  return out;
}

std::string encoded_but(std::string_view text, std::string_view plain_signs) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain = c < 0x80 && (std::isalnum(c) != 0 ||
                                    plain_signs.find(static_cast<char>(c)) != plain_signs.npos);
    out += plain ? std::string(1, static_cast<char>(c)) : formatted("%%%02X", c);
  }
  return out;
}

std::string log_pairs_json(const std::string& run_id, const char* kind, const TextPairs& pairs,
                           std::size_t most_bytes) {
  Json list = Json::array();
  for (const auto& [name, value] : pairs)
    list.push_back(
        {{"key", mlflow_name(name)}, {"value", cut_to_bytes(printable(value), most_bytes)}});
  return json_text({{"run_id", run_id}, {kind, std::move(list)}});
}

}  // namespace

std::string mlflow_server_url(const std::string& tracking_uri, std::string* user,
                              std::string* password) {
  const std::size_t colon = tracking_uri.find("://");
  const std::string scheme = tracking_uri.substr(0, std::min(colon, tracking_uri.find(':')));
  if (scheme == "file" || colon == std::string::npos)
    refuse("names a folder, not a server: MLflow's file stores are not supported");
  if (scheme != "http" && scheme != "https" && scheme != "azureml")
    refuse("begins with '" + printable(scheme) + ":', which is not supported");
  std::string rest = tracking_uri.substr(colon + 3);
  if (rest.find('@', std::min(rest.find_first_of("/?#"), rest.size())) != std::string::npos)
    refuse(
        "has an @ behind its host. In a user's name or password write / as %2F, ? as %3F, # as %23 "
        "and @ as %40. As it stands it cannot be read");
  rest.resize(std::min(rest.find_first_of("?#"), rest.size()));
  while (rest.ends_with('/')) rest.pop_back();
  const std::size_t at = rest.substr(0, rest.find('/')).rfind('@');
  if (at != std::string::npos) {
    const std::string login = rest.substr(0, at);
    const std::size_t divider = std::min(login.find(':'), login.size());
    *user = decoded(login.substr(0, divider));
    *password = decoded(login.substr(std::min(divider + 1, login.size())));
    rest = rest.substr(at + 1);
  }
  if (rest.empty() || rest.front() == '/') refuse("names no host");
  return (scheme == "azureml" ? "https" : scheme) + "://" + rest;
}

std::string mlflow_name(std::string_view text) {
  std::string name(text.substr(0, kMostNameBytes));
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) {
        return c >= 0x80 ||
               (std::isalnum(c) == 0 &&
                std::string_view("_-.:/ ").find(static_cast<char>(c)) == std::string_view::npos);
      },
      '_');
  return name;
}

std::string log_metrics_json(const std::string& run_id, std::span<const MlflowPoint> points) {
  Json list = Json::array();
  for (const MlflowPoint& point : points)
    list.push_back({{"key", mlflow_name(point.name)},
                    {"value", as_json(point.value)},  // a bare NaN would be stored as 0
                    {"timestamp", point.milliseconds},
                    {"step", point.step}});
  return json_text({{"run_id", run_id}, {"metrics", std::move(list)}});
}

std::string log_params_json(const std::string& run_id, const TextPairs& params) {
  return log_pairs_json(run_id, "params", params, kMostParamBytes);
}

std::string log_tags_json(const std::string& run_id, const TextPairs& tags) {
  return log_pairs_json(run_id, "tags", tags, kMostTagBytes);
}

std::string url_encoded(std::string_view text) {
  return encoded_but(text, "-._~");
}

std::string url_path_encoded(std::string_view path) {
  return encoded_but(path, "-._~/%");
}

}  // namespace kiln
