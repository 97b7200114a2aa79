// The server's own routes: predictions as `kiln score --all-classes` writes them, heat maps,
// health, metrics, and the page for people. And those of platforms that ask the same: SageMaker
// ("Use Your Own Inference Code with Hosting Services" and "… with Batch Transform"), Azure ML
// online endpoints, whose deployment names the other two of its routes, and Vertex AI ("Custom
// container requirements for prediction").
#include "tools/serve/contracts.h"

#include "base/text.h"
#include "data/image/image.h"
#include "report/page/html.h"

namespace kiln {
namespace {

constexpr int kHeatMapQuality = 90;

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
  const std::shared_ptr<const ServedModel> model = state.model();
  std::string labels;  // which those without the key need not know
  for (const std::string& label : model->labels())
    if (!state.needs_key()) labels += element("li", escaped(label));
  return {.type = "text/html; charset=utf-8",
          .body = filled(kServePageHtml,
                         {{"style", std::string(kReportCss)},
                          {"model", escaped(model->predictor().directory.spec.model_name)},
                          {"classes", std::to_string(model->labels().size())},
                          {"labels", labels}}),
          .headers = {{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}}};
}

// One record that is not answered with 200 fails a whole batch transform.
Question ask_about_record(HttpRequest request) {
  return question_of(read_images(std::move(request)), /*bad_status=*/200);
}

// A batch transform asks how it may send its records: at most 100 MB at a time.
HttpResponse answer_execution_parameters(const ServerState& state, const HttpRequest&) {
  constexpr long long kMostAtATime = 100;
  const long long payload = std::min(kMostAtATime, state.max_body_mib());
  return {.body = formatted("{\"MaxConcurrentTransforms\": %lld, \"BatchStrategy\": "
                            "\"SINGLE_RECORD\", \"MaxPayloadInMB\": %lld}\n",
                            std::min(8LL, kMostAtATime / payload), payload)};
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
  if (state.model()->is_failing())
    return error_response(503, "The model fails time after time; the server's log says why.");
  return {.body = "{\"status\": \"alive\", \"live\": true}\n"};
}

HttpResponse answer_readiness(const ServerState& state, const HttpRequest&) {
  if (!state.is_ready()) return error_response(503, "The server is ending, or its model fails.");
  return {.body = "{\"status\": \"ready\", \"ready\": true}\n"};
}

std::vector<Route> routes_of(const ServingPlace& place) {
  std::vector<Route> routes;
  if (!place.vertex_health.empty())
    routes.push_back({.method = "GET",
                      .path = place.vertex_health,
                      .is_open = true,
                      .answer = answer_readiness});
  if (!place.vertex_predict.empty())
    routes.push_back({.method = "POST", .path = place.vertex_predict, .ask = ask_about_body});
  const std::vector<Route> own = {
      {.method = "POST", .path = "/predict", .ask = ask_about_body},
      {.method = "POST", .path = "/explain", .ask = ask_with_heat_map},
      {.method = "GET", .path = "/healthz", .is_open = true, .answer = answer_life},
      {.method = "GET", .path = "/readyz", .is_open = true, .answer = answer_readiness},
      {.method = "GET", .path = "/metrics", .answer = answer_metrics},
      {.method = "GET", .path = "/", .is_open = true, .answer = answer_page},
      // SageMaker
      {.method = "GET", .path = "/ping", .is_open = true, .answer = answer_readiness},
      {.method = "POST",
       .path = "/invocations",
       .ask = place.is_batch_transform ? ask_about_record : ask_about_body},
      {.method = "GET", .path = "/execution-parameters", .answer = answer_execution_parameters},
      // Azure ML
      {.method = "POST", .path = "/score", .ask = ask_about_body}};
  routes.insert(routes.end(), own.begin(), own.end());
  const std::vector<Route> protocol = inference_protocol_routes();
  routes.insert(routes.end(), protocol.begin(), protocol.end());
  return routes;
}

}  // namespace kiln
