// The routes of SageMaker ("Use Your Own Inference Code with Hosting Services" and "… with Batch
// Transform"), of Azure ML online endpoints (whose deployment names the other two of its routes),
// and of Vertex AI ("Custom container requirements for prediction").
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "tools/serve/contracts.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

// A batch transform asks how it may send its records.
HttpResponse tell_execution_parameters(const ServerState& state, const HttpRequest&) {
  return {.body = formatted("{\"MaxConcurrentTransforms\": 8, \"BatchStrategy\": "
                            "\"SINGLE_RECORD\", \"MaxPayloadInMB\": %lld}\n",
                            std::min(100LL, state.max_body_mib()))};
}

// The base64 of an instance: {"b64": "…"}, as the value of any key, or plain.
const std::string* base64_of(const Json& instance, int depth = 0) {
  if (instance.is_string()) return &instance.get_ref<const std::string&>();
  if (!instance.is_object() || depth > 1) return nullptr;
  for (const char* key : {"b64", "content", "image", "image_bytes", "data"})
    if (const auto found = instance.find(key); found != instance.end())
      return base64_of(*found, depth + 1);
  return nullptr;
}

Question ask_about_instances(const ServedModel&, HttpRequest request) {
  const Json json = parse_json(std::exchange(request.body, {}));
  const auto instances = json.is_object() ? json.find("instances") : json.end();
  if (instances == json.end() || !instances->is_array() || instances->empty())
    throw BadRequest("JSON is {\"instances\": [{\"b64\": \"…\"}]}, an image in base64 each.");
  std::vector<EncodedImage> images;
  for (const Json& instance : *instances) {
    const std::string* text = base64_of(instance);
    if (text == nullptr)
      throw BadRequest("Instance " + std::to_string(images.size()) +
                       " is not {\"b64\": \"…\"} with an image in base64.");
    images.push_back(image_of_base64(*text));
  }
  return question_of(std::move(images), false);
}

}  // namespace

std::vector<Route> sagemaker_routes() {
  return {{.method = "GET", .path = "/ping", .is_open = true, .tell = tell_readiness},
          {.method = "POST", .path = "/invocations", .ask = ask_about_body},
          {.method = "GET", .path = "/execution-parameters", .tell = tell_execution_parameters}};
}

std::vector<Route> azure_routes() {
  return {{.method = "POST", .path = "/score", .ask = ask_about_body}};
}

std::vector<Route> vertex_routes(const ServingPlace& place) {
  std::vector<Route> routes;
  if (!place.vertex_health.empty())
    routes.push_back(
        {.method = "GET", .path = place.vertex_health, .is_open = true, .tell = tell_readiness});
  if (!place.vertex_predict.empty())
    routes.push_back({.method = "POST", .path = place.vertex_predict, .ask = ask_about_instances});
  return routes;
}

}  // namespace kiln
