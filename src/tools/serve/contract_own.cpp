// The server's own routes: predictions as `kiln score --all-classes` writes them, heat maps,
// health, metrics, and the page for people.
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "data/image/image.h"
#include "report/page/html.h"
#include "tools/serve/contracts.h"

namespace kiln {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxParts = 1024;  // of a multipart body
constexpr int kHeatMapQuality = 90;

HttpResponse tell_metrics(const ServerState& state, const HttpRequest&) {
  return {.type = "text/plain; version=0.0.4", .body = state.metrics()};
}

// The value of `name` in a header such as `form-data; name="image"; filename="a.jpg"`.
std::string parameter_of(std::string_view header, std::string_view name) {
  const std::string wanted = std::string(name) + "=";
  for (std::size_t at = header.find(';'); at != header.npos; at = header.find(';', at)) {
    at = header.find_first_not_of("; \t", at);
    if (at == header.npos) break;
    const std::string_view rest = header.substr(at);
    if (in_small_letters(rest.substr(0, wanted.size())) != wanted) continue;
    const std::string_view value = rest.substr(wanted.size());
    if (value.starts_with('"')) return std::string(value.substr(1, value.find('"', 1) - 1));
    return std::string(value.substr(0, value.find_first_of("; \t")));
  }
  return "";
}

// The parts of multipart/form-data (RFC 7578) that have a file name or are called image.
std::vector<EncodedImage> images_of_form(const std::shared_ptr<const std::string>& body,
                                         std::string_view type) {
  const std::string boundary = parameter_of(type, "boundary");
  if (boundary.empty()) throw BadRequest("The Content-Type of the form has no boundary.");
  const std::string_view all = *body;
  const std::string between = "\r\n--" + boundary;
  std::vector<EncodedImage> images;
  std::size_t at = all.starts_with(between.substr(2)) ? between.size() - 2 : all.npos;
  for (std::size_t part = 0; at != all.npos && !all.substr(at).starts_with("--"); ++part) {
    const std::size_t head_end = all.find("\r\n\r\n", at);
    const std::size_t end = head_end == all.npos ? all.npos : all.find(between, head_end + 2);
    if (end == all.npos || part == kMaxParts)
      throw BadRequest("The form ends early, or has more than 1024 parts.");
    std::string disposition;
    for (std::string_view head = all.substr(at, head_end - at); !head.empty();) {
      const std::string_view line = head.substr(0, head.find("\r\n"));
      if (in_small_letters(line).starts_with("content-disposition:")) disposition = line;
      head.remove_prefix(std::min(head.size(), line.size() + 2));
    }
    const std::string file = parameter_of(disposition, "filename");
    if (!file.empty() || parameter_of(disposition, "name") == "image")
      images.push_back({body, all.substr(head_end + 4, end - std::min(end, head_end + 4)), file});
    at = end + between.size();
  }
  if (images.empty()) throw BadRequest("The form has no image: send it as a file.");
  return images;
}

Question ask_with_heat_map(const ServedModel& model, HttpRequest request) {
  Question question = ask_about_body(model, std::move(request));
  for (EncodedImage& image : question.images) image.wants_heat_map = true;
  return question;
}

HttpResponse tell_page(const ServerState& state, const HttpRequest&) {
  const std::shared_ptr<const ServedModel> model = state.model();
  return {.type = "text/html; charset=utf-8",
          .body = filled(kServePageHtml, {{"style", std::string(kReportCss)},
                                          {"model", escaped(model->predictor().spec().model_name)},
                                          {"classes", std::to_string(model->labels().size())}}),
          .headers = {{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}}};
}

}  // namespace

HttpResponse tell_life(const ServerState&, const HttpRequest&) {
  return {.body = "{\"status\": \"alive\", \"live\": true}\n"};
}

HttpResponse tell_readiness(const ServerState& state, const HttpRequest&) {
  if (!state.is_ready()) return error_response(503, "The server is ending.");
  return {.body = "{\"status\": \"ready\", \"ready\": true}\n"};
}

std::string row_of_answer(const ServedModel& model, const ServedAnswer& answer) {
  std::string row = find_score_format(".jsonl")->encoder(model.columns())->row(answer.score);
  row.erase(row.find_last_of('}'));
  if (answer.heat_map)
    row += ", \"heat_map\": \"data:image/jpeg;base64," +
           base64(encode_jpeg(*answer.heat_map, kHeatMapQuality)) + "\"";
  return row + "}";
}

EncodedImage image_of_base64(std::string_view text) {
  if (text.starts_with("data:")) text.remove_prefix(std::min(text.find(',') + 1, text.size()));
  try {
    auto bytes = std::make_shared<const std::string>(from_base64(text));
    const std::string_view all = *bytes;
    return {std::move(bytes), all};
  } catch (const std::invalid_argument&) {
    throw BadRequest("An image is not valid base64 (RFC 4648, without line breaks).");
  }
}

Question question_of(std::vector<EncodedImage> images, bool is_alone) {
  const auto respond = [is_alone](const ServedModel& model,
                                  const std::vector<ServedAnswer>& answers) -> HttpResponse {
    if (is_alone)
      return {.status = answers[0].score.best.empty() ? 422 : 200,
              .body = row_of_answer(model, answers[0]) + "\n"};
    std::string rows;
    for (const ServedAnswer& answer : answers)
      rows += (rows.empty() ? "" : ", ") + row_of_answer(model, answer);
    return {.body = "{\"predictions\": [" + rows + "]}\n"};
  };
  return {std::move(images), respond};
}

Question ask_about_body(const ServedModel&, HttpRequest request) {
  const std::string type = in_small_letters(request.header("content-type"));
  if (request.body.empty()) throw BadRequest("The body is empty: send an image.");
  if (!type.starts_with("application/json")) {
    const auto body = std::make_shared<const std::string>(std::move(request.body));
    if (!type.starts_with("multipart/form-data")) return question_of({{body, *body}}, true);
    return question_of(images_of_form(body, request.header("content-type")), false);
  }
  const Json json = parse_json(std::exchange(request.body, {}));
  constexpr const char* kForm =
      "JSON is {\"image\": \"…\"} or {\"images\": [\"…\"]}, each an image in base64.";
  const auto images = json.is_object() ? json.find("images") : json.end();
  const auto image = json.is_object() ? json.find("image") : json.end();
  if (image != json.end() && image->is_string())
    return question_of({image_of_base64(image->get_ref<const std::string&>())}, true);
  if (images == json.end() || !images->is_array() || images->empty()) throw BadRequest(kForm);
  std::vector<EncodedImage> all;
  for (const Json& one : *images) {
    if (!one.is_string()) throw BadRequest(kForm);
    all.push_back(image_of_base64(one.get_ref<const std::string&>()));
  }
  return question_of(std::move(all), false);
}

std::vector<Route> own_routes() {
  return {{.method = "POST", .path = "/predict", .ask = ask_about_body},
          {.method = "POST", .path = "/explain", .ask = ask_with_heat_map},
          {.method = "GET", .path = "/healthz", .is_open = true, .tell = tell_life},
          {.method = "GET", .path = "/readyz", .is_open = true, .tell = tell_readiness},
          {.method = "GET", .path = "/metrics", .tell = tell_metrics},
          {.method = "GET", .path = "/", .is_open = true, .tell = tell_page}};
}

}  // namespace kiln
