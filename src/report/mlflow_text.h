// What MLflow's tracking servers take: addresses, names, values and bodies of its REST calls
// (https://mlflow.org/docs/latest/rest-api.html), within the limits of the open server and, where
// those are lower, of Azure ML.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_record.h"

namespace kiln {

inline constexpr std::size_t kMostMlflowMetrics = 250;  // a call
inline constexpr std::size_t kMostMlflowPairs = 100;    // parameters or tags a call

struct MlflowPoint {
  std::string name;
  double value = 0;
  std::int64_t milliseconds = 0;  // since 1970, UTC
  std::int64_t step = 0;
};

// Where the REST calls of a MLFLOW_TRACKING_URI go, without a slash at the end. A user and password
// in it are taken out into the last two. Throws Error kUserError for stores that are no server.
std::string mlflow_server_url(const std::string& tracking_uri, std::string* user,
                              std::string* password);

// Only letters, digits and `_-.: /`, at most 250 of them.
std::string mlflow_name(std::string_view text);

std::string log_metrics_json(const std::string& run_id, std::span<const MlflowPoint> points);
std::string log_params_json(const std::string& run_id, const TextPairs& params);
std::string log_tags_json(const std::string& run_id, const TextPairs& tags);

// Bytes that may not stand in a URL as %41.
std::string url_encoded(std::string_view text);
// The same of a path, some of which may be encoded already.
std::string url_path_encoded(std::string_view path);

}  // namespace kiln
