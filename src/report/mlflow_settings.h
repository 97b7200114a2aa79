// What MLflow's clients read from the environment.
#pragma once

#include <optional>

#include "report/mlflow_server.h"

namespace kiln {

// Empty without MLFLOW_TRACKING_URI.
std::optional<MlflowSettings> mlflow_settings_of_environment();

}  // namespace kiln
