// The server's own routes: predictions as `kiln score --all-classes` writes them, heat maps,
// health, metrics, and the page for people. And those of platforms that ask the same: SageMaker
// ("Use Your Own Inference Code with Hosting Services" and "… with Batch Transform"), Azure ML
// online endpoints, whose deployment names the other two of its routes, and Vertex AI ("Custom
// container requirements for prediction").
#include "tools/serve/contracts.h"

#include <nlohmann/json.hpp>

#include "base/platform/installation.h"
#include "base/text.h"
#include "data/image/image.h"
#include "report/page/html.h"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kHeatMapQuality = 90;
constexpr const char *kAnswers = "The classes of an image, or of several",
                     *kReady = "Whether the server takes requests";

HttpResponse answer_metrics(const ServerState& state, const HttpRequest&) {
  return {.type = "text/plain; version=0.0.4", .body = state.metrics()};
}

// The row of an answer in JSON, without a line end.
std::string row_of_answer(const ServedModel& model, const ServedAnswer& answer) {
  std::string row = model.rows().row(answer.score);
  row.erase(row.find_last_of('}'));
  if (answer.heat_map)
    row += ", \"heat_map\": \"data:image/jpeg;base64," +
           base64(encode_jpeg(*answer.heat_map, kHeatMapQuality)) + "\"";
  return row + "}";
}

// Answered as JSON: the row of an image that was sent alone, with `bad_status` if it is bad; else
// {"predictions": [rows]}.
Question question_of(AskedImages asked, int bad_status = 422) {
  const auto respond = [is_alone = asked.is_alone, bad_status](
                           const ServedModel& model,
                           const std::vector<ServedAnswer>& answers) -> HttpResponse {
    if (is_alone)
      return {.status = answers[0].score.best.empty() ? bad_status : 200,
              .body = row_of_answer(model, answers[0]) + "\n"};
    std::string rows;
    for (const ServedAnswer& answer : answers)
      rows += (rows.empty() ? "" : ", ") + row_of_answer(model, answer);
    return {.body = "{\"predictions\": [" + rows + "]}\n"};
  };
  return {std::move(asked.images), respond};
}

Question ask_about_body(HttpRequest request) {
  return question_of(read_images(std::move(request)));
}

Question ask_with_heat_map(HttpRequest request) {
  Question question = ask_about_body(std::move(request));
  for (EncodedImage& image : question.images) image.wants_heat_map = true;
  return question;
}

HttpResponse answer_page(const ServerState& state, const HttpRequest&) {
  const ServedModel& model = *state.model;
  std::string labels;  // which those without the key need not know
  for (const std::string& label : model.labels())
    if (!state.needs_key) labels += element("li", escaped(label));
  return {.type = "text/html; charset=utf-8",
          .body = filled(kServePageHtml,
                         {{"style", std::string(kReportCss)},
                          {"model", escaped(model.predictor().directory.spec.model_name)},
                          {"classes", std::to_string(model.labels().size())},
                          {"labels", labels}}),
          .headers = {{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}}};
}

// A batch transform asks how it may send its records: at most 100 MB at a time.
HttpResponse answer_execution_parameters(const ServerState& state, const HttpRequest&) {
  constexpr std::size_t kMostAtATime = 100;
  const std::size_t payload = std::min(kMostAtATime, state.max_body_mib);
  return {.body = formatted("{\"MaxConcurrentTransforms\": %zu, \"BatchStrategy\": "
                            "\"SINGLE_RECORD\", \"MaxPayloadInMB\": %zu}\n",
                            std::min<std::size_t>(8, kMostAtATime / payload), payload)};
}

HttpResponse answer_openapi(const ServerState& state, const HttpRequest&) {
  const Json any = Json::object(), text = {{"type", "string"}};
  const Json responses = {{"200", {{"description", "The answer"}}},
                          {"default", {{"description", "{\"error\": why}"}}}};
  const Json images = {{"image/*", any}, {"multipart/form-data", any}, {"application/json", any}};
  Json paths;
  for (const Route& route : state.routes) {
    std::string path = route.path;
    Json does = {{"summary", route.summary}, {"responses", responses}};
    for (const std::string name : {"name", "version"})
      if (const std::size_t star = path.find('*'); star != path.npos) {
        path.replace(star, 1, "{" + name + "}");
        does["parameters"].push_back(
            {{"name", name}, {"in", "path"}, {"required", true}, {"schema", text}});
      }
    if (route.ask) does["requestBody"]["content"] = images;
    if (state.needs_key && !route.is_open) does["security"] = {{{"key", Json::array()}}};
    paths[path][in_small_letters(route.method)] = std::move(does);
  }
  const Json json = {
      {"openapi", "3.0.3"},
      {"info", {{"title", "kiln serve"}, {"version", std::string(version_number())}}},
      {"paths", paths},
      {"components", {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
  return {.body = json.dump() + "\n"};
}

}  // namespace

bool is_path_of(const Route& route, std::string_view path) {
  std::string_view wanted = route.path;
  for (;;) {
    const std::string_view part = path.substr(0, path.find('/')),
                           own = wanted.substr(0, wanted.find('/'));
    if (own == "*" ? part.empty() : own != part) return false;
    if (part.size() == path.size() || own.size() == wanted.size())
      return part.size() == path.size() && own.size() == wanted.size();
    path.remove_prefix(part.size() + 1);
    wanted.remove_prefix(own.size() + 1);
  }
}

HttpResponse answer_life(const ServerState& state, const HttpRequest&) {
  if (state.model->is_failing())
    return error_response(503, "The model fails time after time; the server's log says why.");
  return {.body = formatted(
              "{\"status\": \"alive\", \"live\": true, \"model\": \"%s\", \"version\": \"%s\"}\n",
              state.model->predictor().print.c_str(), std::string(version_number()).c_str())};
}

HttpResponse answer_readiness(const ServerState& state, const HttpRequest&) {
  if (!state.is_ready) return error_response(503, "The server is ending, or its model fails.");
  return {.body = "{\"status\": \"ready\", \"ready\": true}\n"};
}

std::vector<Route> routes_of(const ServingPlace& place) {
  // One record that is not answered with 200 fails a whole batch transform.
  const auto ask_record = [status = place.is_batch_transform ? 200 : 422](HttpRequest request) {
    return question_of(read_images(std::move(request)), status);
  };
  std::vector<Route> routes;
  if (!place.vertex_health.empty())
    routes.push_back({"GET", place.vertex_health, kReady, true, answer_readiness});
  if (!place.vertex_predict.empty())
    routes.push_back({"POST", place.vertex_predict, kAnswers, false, {}, ask_about_body});
  const std::vector<Route> own = {
      {"POST", "/predict", kAnswers, false, {}, ask_about_body},
      {"POST", "/explain", "The same, with heat maps", false, {}, ask_with_heat_map},
      {"GET", "/healthz", "Whether the server lives, and with what model", true, answer_life},
      {"GET", "/readyz", kReady, true, answer_readiness},
      {"GET", "/metrics", "Counts and durations, for Prometheus", false, answer_metrics},
      {"GET", "/openapi.json", "This description", true, answer_openapi},
      {"GET", "/", "A page for people", true, answer_page},
      {"GET", "/ping", "/readyz for SageMaker", true, answer_readiness},
      {"POST", "/invocations", "/predict for SageMaker", false, {}, ask_record},
      {"GET", "/execution-parameters", "How SageMaker may send a batch transform", false,
       answer_execution_parameters},
      {"POST", "/score", "/predict for Azure ML", false, {}, ask_about_body}};
  for (const std::vector<Route>& more : {own, inference_protocol_routes()})
    routes.insert(routes.end(), more.begin(), more.end());
  return routes;
}

}  // namespace kiln
