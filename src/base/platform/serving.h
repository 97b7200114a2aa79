// What the platforms that run a server tell it by their environment: SageMaker ("Use Your Own
// Inference Code"), Vertex AI ("Custom container requirements for prediction"), Azure ML online
// endpoints, KServe, and the image of this program.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace kiln {

inline constexpr const char* kEveryInterface = "0.0.0.0";  // of IPv6, too

struct ServingPlace {
  // Where a platform puts a model, in the order of search.
  std::vector<std::filesystem::path> models;
  std::string storage_uri;  // AIP_STORAGE_URI; empty: not set
  // KILN_HOST, which the image sets; all interfaces, on Vertex AI.
  std::string host = "127.0.0.1";
  int port = 8080;                  // AIP_HTTP_PORT or SAGEMAKER_BIND_TO_PORT, if set
  bool is_batch_transform = false;  // SAGEMAKER_BATCH
  int max_body_mib = 0;             // SAGEMAKER_MAX_PAYLOAD_IN_MB, whose 0 is the most; 0: not set
  std::string vertex_health, vertex_predict;  // AIP_HEALTH_ROUTE, AIP_PREDICT_ROUTE; empty: not set
};

// Throws Error kParameterParsing if a number in the environment is none.
ServingPlace read_serving_place();

}  // namespace kiln
