#include "report/mlflow_settings.h"

#include <cstdlib>
#include <string>

namespace kiln {
namespace {

// Without blanks and line ends around it, as files of secrets have them.
std::string setting(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  return text;
}

bool is_true(const std::string& text) {
  return text == "true" || text == "True" || text == "TRUE" || text == "1";
}

}  // namespace

std::optional<MlflowSettings> mlflow_settings_of_environment() {
  MlflowSettings settings;
  settings.tracking_uri = setting("MLFLOW_TRACKING_URI");
  if (settings.tracking_uri.empty()) return {};
  settings.login.token = setting("MLFLOW_TRACKING_TOKEN");
  settings.login.user = setting("MLFLOW_TRACKING_USERNAME");
  settings.login.password = setting("MLFLOW_TRACKING_PASSWORD");
  settings.login.ca_file = setting("MLFLOW_TRACKING_SERVER_CERT_PATH");
  settings.login.insecure_tls = is_true(setting("MLFLOW_TRACKING_INSECURE_TLS"));
  settings.run_id = setting("MLFLOW_RUN_ID");
  settings.experiment_id = setting("MLFLOW_EXPERIMENT_ID");
  settings.experiment_name = setting("MLFLOW_EXPERIMENT_NAME");
  return settings;
}

}  // namespace kiln
