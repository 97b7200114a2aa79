// The Open Inference Protocol, version 2, over HTTP, with its extension for binary tensor data
// (kserve.github.io/website, "Open Inference Protocol"; Triton's
// protocol/extension_binary_data.md); protocol_request.cpp reads the requests. Outputs:
// probabilities FP32 [N, classes], label BYTES [N] (empty: unsure), confidence FP32 [N].
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/names.h"
#include "base/platform/installation.h"
#include "tools/serve/contracts.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

HttpResponse answer_server(const ServerState&, const HttpRequest&) {
  const Json json = {{"name", "kiln"},
                     {"version", std::string(version_number())},
                     {"extensions", {"binary_tensor_data"}}};
  return {.body = json.dump() + "\n"};
}

// The part of /v2/models/NAME/… that is the name.
std::string name_in(std::string_view path) {
  constexpr std::string_view kStart = "/v2/models/";
  path.remove_prefix(std::min(kStart.size(), path.size()));
  return as_utf8(std::string(path.substr(0, path.find('/'))));
}

HttpResponse answer_model(const ServerState& state, const HttpRequest& request) {
  const auto classes = static_cast<std::int64_t>(state.model->labels().size());
  const auto tensor = [](const char* name, const char* type, std::vector<std::int64_t> shape) {
    return Json{{"name", name}, {"datatype", type}, {"shape", std::move(shape)}};
  };
  const Json json = {{"name", name_in(request.path)},
                     {"versions", {"1"}},
                     {"platform", "kiln"},
                     {"inputs", Json::array({tensor("image", "UINT8", {-1, -1, -1, 3})})},
                     {"outputs", Json::array({tensor("probabilities", "FP32", {-1, classes}),
                                              tensor("label", "BYTES", {-1}),
                                              tensor("confidence", "FP32", {-1})})}};
  return {.body = json.dump() + "\n"};
}

// The values of an output for all images, in JSON or in binary form.
struct OutputData {
  Json values = Json::array();
  std::string bytes;

  void add(float number) {
    values.push_back(number);
    append_bytes(bytes, number);
  }
  void add(const std::string& text) {
    values.push_back(text);
    append_bytes(bytes, static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
};

OutputData data_of(const std::string& output, const ServedModel& model,
                   const std::vector<ServedAnswer>& answers) {
  OutputData data;
  for (const ServedAnswer& answer : answers) {
    if (output == "confidence") data.add(answer.score.best[0].confidence);
    if (output == "label")
      data.add(answer.score.is_unsure ? std::string()
                                      : as_utf8(label_text(model.labels(), answer.score)));
    if (output == "probabilities")
      for (const float probability : answer.score.probabilities) data.add(probability);
  }
  return data;
}

HttpResponse respond(const std::string& name_of_model, const ProtocolRequest& wanted,
                     const ServedModel& model, const std::vector<ServedAnswer>& answers) {
  for (std::size_t i = 0; i < answers.size(); ++i)
    if (answers[i].score.best.empty())
      return error_response(
          400, "Image " + std::to_string(i) + " cannot be used: " + answers[i].score.fault + ".");
  Json json = {{"model_name", name_of_model}, {"model_version", "1"}};
  if (!wanted.id.empty()) json["id"] = wanted.id;
  json["outputs"] = Json::array();
  std::string binary;
  for (const auto& [name, is_binary] : wanted.outputs) {
    OutputData data = data_of(name, model, answers);
    std::vector<std::size_t> shape = {answers.size()};
    if (name == kProtocolOutputs[0]) shape.push_back(model.labels().size());
    Json output = {{"name", name},
                   {"datatype", name == kProtocolOutputs[1] ? "BYTES" : "FP32"},
                   {"shape", shape}};
    if (is_binary)
      output["parameters"] = {{"binary_data_size", data.bytes.size()}};
    else
      output["data"] = std::move(data.values);
    if (is_binary) binary += data.bytes;
    json["outputs"].push_back(std::move(output));
  }
  HttpResponse response{.body = json.dump()};
  if (binary.empty()) return response;
  response.type = "application/octet-stream";
  response.headers.push_back({kProtocolHeader, std::to_string(response.body.size())});
  response.body += binary;
  return response;
}

Question ask_by_protocol(HttpRequest request) {
  std::string name = name_in(request.path);
  ProtocolRequest asked = read_protocol_request(std::move(request));
  std::vector<EncodedImage> images = std::move(asked.images);
  return {std::move(images),
          [name = std::move(name), asked = std::move(asked)](const auto&... answers) {
            return respond(name, asked, answers...);
          }};
}

}  // namespace

std::vector<Route> inference_protocol_routes() {
  constexpr const char *kModel = "The inputs and outputs of the model",
                       *kReady = "Whether the model takes requests",
                       *kInfer = "Probabilities, labels and confidence of images";
  return {{"GET", "/v2", "The server", false, answer_server},
          {"GET", "/v2/health/live", "Whether the server lives", true, answer_life},
          {"GET", "/v2/health/ready", "Whether it takes requests", true, answer_readiness},
          {"GET", "/v2/models/*", kModel, false, answer_model},
          {"GET", "/v2/models/*/ready", kReady, true, answer_readiness},
          {"GET", "/v2/models/*/versions/*", kModel, false, answer_model},
          {"GET", "/v2/models/*/versions/*/ready", kReady, true, answer_readiness},
          {"POST", "/v2/models/*/infer", kInfer, false, {}, ask_by_protocol},
          {"POST", "/v2/models/*/versions/*/infer", kInfer, false, {}, ask_by_protocol}};
}

}  // namespace kiln
