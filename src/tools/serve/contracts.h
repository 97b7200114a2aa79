// How platforms and people ask a server: a contract is a table of routes (routes_of()).
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/platform/serving.h"
#include "tools/serve/http_server.h"
#include "tools/serve/requests.h"
#include "tools/serve/served_model.h"

namespace kiln {

// What a request asks the model.
struct Question {
  std::vector<EncodedImage> images;
  std::function<HttpResponse(const ServedModel&, const std::vector<ServedAnswer>&)> respond;
};

struct Route;

// What routes may know of the server.
struct ServerState {
  bool is_ready = false;
  std::shared_ptr<const ServedModel> model;
  std::function<std::string()> metrics;
  std::size_t max_body_mib = 0;
  bool needs_key = false;
  const std::vector<Route>& routes;
};

struct Route {
  std::string_view method;
  std::string path;      // a part "*" is any text
  const char* summary;   // a few words, for /openapi.json
  bool is_open = false;  // needs no key
  // One of the two. `answer` is called on the server's thread. `ask` is called on a loader thread
  // and may throw BadRequest.
  std::function<HttpResponse(const ServerState&, const HttpRequest&)> answer = {};
  std::function<Question(HttpRequest)> ask = {};
};

bool is_path_of(const Route& route, std::string_view path);

// The page of the server, with {{style}}, {{model}}, {{classes}} (their number) and {{labels}}
// (list items); page.html, embedded.
extern const std::string_view kServePageHtml;

// The rows of all contracts.
std::vector<Route> routes_of(const ServingPlace& place);
std::vector<Route> inference_protocol_routes();  // those in contract_inference_protocol.cpp

// ---- what contracts share ----

// Whether the server lives and its model answers; whether it takes requests, too (else 503).
HttpResponse answer_life(const ServerState& state, const HttpRequest& request);
HttpResponse answer_readiness(const ServerState& state, const HttpRequest& request);

}  // namespace kiln
