// Service: from a request to its response, by the table of routes. run() owns what lives as long as
// the server, and acts on signals: SIGHUP reloads the model, SIGTERM and SIGINT end it.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/names.h"
#include "base/platform/installation.h"
#include "base/random.h"
#include "base/system.h"
#include "base/text.h"
#include "tools/commands.h"
#include "tools/serve/access_log.h"
#include "tools/serve/batcher.h"
#include "tools/serve/contracts.h"
#include "tools/serve/http_server.h"
#include "tools/serve/metrics.h"
#include "tools/serve/served_model.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kUsualBodyMib = 25;  // of a SageMaker endpoint in real time
constexpr std::size_t kMebibyte = 1 << 20, kLeastTotalBytes = 256 * kMebibyte;
constexpr std::size_t kBodiesHeld = 8;       // of the largest size, at a time
constexpr unsigned kOtherDescriptors = 256;  // besides those of connections
constexpr std::size_t kMaxKeyBytes = 4096;
constexpr std::chrono::milliseconds kAskInput{200};  // between looks at standard input
// While the server ends: how long it takes new connections, and waits for the last responses. A
// proxy learns within the former that the server is not ready.
constexpr double kSecondsListening = 2, kSecondsQuiet = 0.5, kMaxSecondsEnding = 25;

// A program that started the server and is gone, however it ended.
bool is_input_closed() {
  pollfd input{STDIN_FILENO, 0, 0};
  return ::poll(&input, 1, 0) > 0 && (input.revents & POLLHUP) != 0;
}

// Takes a time that does not depend on where they differ.
bool is_same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

// Thread-safe.
class Service final : public HttpHandler {
 public:
  // The references must outlive it. Without a `key` none is needed. Throws what AccessLog throws.
  Service(const ServeConfig& config, const PredictionJob& job, const HttpServer& server,
          std::vector<Route> routes, std::string key, std::size_t max_body_bytes)
      : config_(config),
        job_(job),
        server_(server),
        routes_(std::move(routes)),
        key_(std::move(key)),
        max_body_bytes_(max_body_bytes),
        batcher_(config, job, metrics_) {
    if (!config.access_log.empty()) access_log_.emplace(config.access_log, job.log, metrics_);
  }

  void use(std::shared_ptr<ServedModel> model) {
    const std::scoped_lock lock(mutex_);
    model_ = std::move(model);
  }
  void end() { is_ending_ = true; }
  ServerMetrics& counters() { return metrics_; }

  std::optional<HttpResponse> refuse(const HttpRequest& head) override {
    std::optional<HttpResponse> response;
    const Route* route = find(head);
    if (route == nullptr)
      response = error_response(404, "There is no " + excerpt(head.path) + " here.");
    else if (!is_method_of(*route, head.method))
      response = error_response(405, "This path takes " + std::string(route->method) + ".",
                                {{"Allow", std::string(route->method)}});
    else if (!route->is_open && !has_key(head))
      response = error_response(
          401, "The header Authorization: Bearer KEY is missing, or its key is wrong.",
          {{"WWW-Authenticate", "Bearer"}});
    if (response)
      note({request_id(head.header("x-request-id")), route ? route->path : "none"}, *response);
    return response;
  }

  void handle(HttpRequest request, std::shared_ptr<Responder> responder) override {
    const Route& route = *find(request);
    Access access{request_id(request.header("x-request-id")), route.path};
    if (route.answer) {
      const ServerState state{.is_ready = is_ready(),
                              .model = model(),
                              .metrics = [this] { return metrics(); },
                              .max_body_mib = max_body_bytes_ / kMebibyte,
                              .needs_key = !key_.empty(),
                              .routes = routes_};
      return respond(access, *responder, route.answer(state, request));
    }
    auto place = batcher_.take_place(1);
    if (!place) return respond(access, *responder, error_response(503, kFull));
    const auto call = std::make_shared<Call>(
        Call{route, std::move(request), std::move(responder), std::move(access), {}, {}});
    call->places.push_back(std::move(place));
    batcher_.run([this, call] { guarded(*call, [&] { ask(call); }); });
  }

  void add_refusal(int status) override {
    HttpResponse response{.status = status};
    note({request_id({}), "none"}, response);
  }

  std::shared_ptr<ServedModel> model() const {
    const std::scoped_lock lock(mutex_);
    return model_;
  }

 private:
  static constexpr const char* kFull = "The queue is full (--max-queue): try again.";

  bool is_ready() const { return !is_ending_ && !model()->is_failing(); }

  std::string metrics() const {
    const std::shared_ptr<ServedModel> model = this->model();
    std::vector<ServerMetrics::Gauge> now = {
        {"kiln_ready", is_ready() ? 1.0 : 0.0},
        {"kiln_connections", static_cast<double>(server_.num_connections())},
        {"kiln_queued_images", static_cast<double>(batcher_.num_queued())},
        {"kiln_model_info", 1,
         metric_label("model", model->predictor().print) + "," +
             metric_label("version", version_number())}};
    if (const auto unsure = model->unsure_in_validation())
      now.push_back({"kiln_validation_unsure_ratio", *unsure});
    return metrics_.text(now);
  }

  // A request to the model.
  struct Call {
    const Route& route;
    HttpRequest request;
    std::shared_ptr<Responder> responder;
    Access access;
    std::vector<Batcher::Place> places;
    Stopwatch watch;
  };

  // The route with the path and the method, or else one with the path.
  const Route* find(const HttpRequest& request) const {
    const Route* found = nullptr;
    for (const Route& route : routes_) {
      if (!is_path_of(route, request.path)) continue;
      if (is_method_of(route, request.method)) return &route;
      found = &route;
    }
    return found;
  }

  static bool is_method_of(const Route& route, const std::string& method) {
    return method == route.method || (method == "HEAD" && route.method == "GET");
  }

  static HttpResponse no_answer() {
    return error_response(500, "The server could not answer; its log says why.");
  }

  bool has_key(const HttpRequest& head) const {
    constexpr std::string_view kBearer = "bearer ";
    const std::string_view given = head.header("authorization");
    if (key_.empty()) return true;
    if (in_small_letters(given.substr(0, kBearer.size())) != kBearer) return false;
    return is_same_secret(trimmed(given.substr(kBearer.size())), key_);
  }

  // The one that the client gave, for headers and logs, or a new one.
  std::string request_id(std::string_view given) {
    constexpr std::size_t kMost = 64;
    if (given.empty()) return hex_digits(splitmix64(next_id_++));
    std::string id(given.substr(0, kMost));
    std::ranges::replace_if(
        id, [](char c) { return c < '!' || c > '~'; }, '?');
    return id;
  }

  // Counts and logs a response, and names its request in it.
  void note(Access access, HttpResponse& response) {
    access.status = response.status;
    metrics_.count("kiln_requests_total",
                   metric_label("route", access.route) + formatted(",code=\"%d\"", access.status));
    response.headers.push_back({"X-Request-Id", access.id});
    if (access_log_) access_log_->add(access);
  }

  void respond(const Access& access, Responder& responder, HttpResponse response) {
    note(access, response);
    responder.answer(std::move(response));
  }

  void respond(Call& call, HttpResponse response) {
    const double seconds = call.watch.seconds();
    metrics_.observe("kiln_request_duration_seconds", seconds);
    call.access.queue = std::max(0.0, seconds - call.access.decode - call.access.forward);
    call.places.clear();
    respond(call.access, *call.responder, std::move(response));
  }

  static void describe(const std::vector<ServedAnswer>& answers, const ServedModel& model,
                       Access& access) {
    for (const ServedAnswer& answer : answers) {
      access.decode = std::max(access.decode, answer.decode_seconds);
      access.forward = std::max(access.forward, answer.forward_seconds);
    }
    if (answers.size() != 1 || answers[0].score.best.empty()) return;
    const Score& score = answers[0].score;
    access.confidence = shortest_text(score.best[0].confidence);
    if (!score.is_unsure) access.label = quote_json(as_utf8(label_text(model.labels(), score)));
  }

  // Reads a request, on a loader thread.
  void ask(const std::shared_ptr<Call>& call) {
    std::shared_ptr<ServedModel> model = this->model();
    Question question = call->route.ask(std::move(call->request));
    const std::size_t count = question.images.size();
    if (count > static_cast<std::size_t>(config_.max_queue))
      throw BadRequest("These are more images than the queue may hold (--max-queue).", 413);
    if (count > 1 && count * model->row_bytes() > max_body_bytes_)
      throw BadRequest("The answer would be larger than --max-body-mib: send fewer images at once.",
                       413);
    if (count > 1) {
      auto place = batcher_.take_place(count - 1);
      if (!place) return respond(*call, error_response(503, kFull));
      call->places.push_back(std::move(place));
    }
    const auto use = [this, call, model,
                      to = std::move(question.respond)](const std::vector<ServedAnswer>& answers) {
      guarded(*call, [&] {
        describe(answers, *model, call->access);
        HttpResponse response = answers.empty() ? no_answer() : to(*model, answers);
        response.headers.push_back({"X-Kiln-Model", model->predictor().print});
        respond(*call, std::move(response));
      });
    };
    batcher_.ask(model, std::move(question.images), use);
  }

  // Answers with what `work` throws.
  template <typename Work>
  void guarded(Call& call, const Work& work) try {
    work();
  } catch (const BadRequest& fault) {
    respond(call, error_response(fault.status, fault.what()));
  } catch (const JsonFault& fault) {
    respond(call, error_response(400, std::string("The body ") + fault.what() + "."));
  } catch (const std::exception&) {
    job_.log.warning("a request was not answered: " + caught_fault());
    respond(call, no_answer());
  }

  const ServeConfig& config_;
  const PredictionJob& job_;
  const HttpServer& server_;
  const std::vector<Route> routes_;
  const std::string key_;
  const std::size_t max_body_bytes_;
  ServerMetrics metrics_;
  std::optional<AccessLog> access_log_;
  std::atomic<std::uint64_t> next_id_{
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count())};
  std::atomic<bool> is_ending_ = false;
  mutable std::mutex mutex_;
  std::shared_ptr<ServedModel> model_;
  Batcher batcher_;  // last: its threads use the others
};

// The signals that the server waits for. Other threads, which are created later, do not get them.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&set_);
    for (const int signal : kStopSignals) ::sigaddset(&set_, signal);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // The next one; 0 if none comes in time.
  int wait(std::chrono::milliseconds most) const {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(most);
    const timespec limit{seconds.count(), std::chrono::nanoseconds(most - seconds).count()};
    return std::max(0, ::sigtimedwait(&set_, nullptr, &limit));
  }

 private:
  sigset_t set_{};
};

std::string key_of(const std::string& file) {
  if (file.empty()) return "";
  std::string key;
  try {
    key = read_text(file, kMaxKeyBytes);
  } catch (const std::exception& fault) {
    throw Error(ErrorCode::kUserError, std::string("--key-file cannot be read: ") + fault.what() +
                                           ". Give a text file with the key.");
  }
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  if (key.empty() || std::ranges::any_of(key, [](char c) { return c < '!' || c > '~'; }))
    throw Error(ErrorCode::kUserError,
                "--key-file " + quoted_path(file) +
                    " must hold one word of visible ASCII, the key that clients send.");
  return key;
}

HttpLimits limits_of(const ServeConfig& config, const ServingPlace& place) {
  const int asked = config.max_body_mib > 0 ? config.max_body_mib : place.max_body_mib;
  const std::size_t body_bytes =
      static_cast<std::size_t>(asked > 0 ? asked : kUsualBodyMib) * kMebibyte;
  return {.body_bytes = body_bytes,
          .total_bytes = std::max(kBodiesHeld * body_bytes, kLeastTotalBytes),
          .connections = static_cast<std::size_t>(config.max_connections),
          .seconds = config.max_seconds};
}

// A model that lacks what the earlier one has was not copied whole.
void require_as_whole(const Predictor& model, const Predictor& earlier) {
  for (const std::string& note : model.notes)
    if (std::ranges::find(earlier.notes, note) == earlier.notes.end())
      throw Error(ErrorCode::kInvalidModelDirectory,
                  note + " The earlier one has it: copy all of the new one.");
}

void reload(const ServeConfig& config, const ServingPlace& place, const PredictionJob& job,
            Service& service) try {
  const FoundModel found = find_served_model(config.trained_model_path, place);
  const std::shared_ptr<ServedModel> model = open_served_model(config, found.path, job);
  require_as_whole(model->predictor(), service.model()->predictor());
  job.log.info("reloaded:  the model " + quoted_path(found.path));
  job.log_model(model->predictor());
  service.use(model);
  service.counters().count("kiln_model_reloads_total", "result=\"done\"");
} catch (const std::exception&) {
  service.counters().count("kiln_model_reloads_total", "result=\"failed\"");
  job.log.warning("The model is not reloaded, the earlier one answers on: " + caught_fault());
}

// Answers what is running, after the stop signal `first`. 128 + n after another one n, else 0.
int end(int first, HttpServer& server, Service& service, const Signals& signals, Log& log) {
  service.end();
  server.end_connections();
  log.info("ending:    running requests are answered");
  Stopwatch quiet;
  bool is_listening = true;
  for (const Stopwatch watch; watch.seconds() < kMaxSecondsEnding;) {
    if (const int signal = signals.wait(std::chrono::milliseconds(20));
        signal != 0 && !repeats_stop(first, signal, watch.seconds()))
      return 128 + signal;
    if (server.num_active() > 0) quiet.lap();
    if (is_listening && watch.seconds() >= kSecondsListening) {
      server.stop_listening();
      is_listening = false;
    }
    if (!is_listening && quiet.seconds() >= kSecondsQuiet) return 0;
  }
  log.warning(formatted("%d requests were not answered in time.", server.num_active()));
  return 0;
}

}  // namespace

int run(const ServeConfig& config, Process& process) {
  Log& log = process.log;
  const Signals signals;
  const ServingPlace place = read_serving_place();
  const PredictionJob job(config.prediction, log);
  const FoundModel found = find_served_model(config.trained_model_path, place);
  const std::string host =
      config.host.value_or(found.is_of_platform ? kEveryInterface : place.host);
  const HttpLimits limits = limits_of(config, place);
  std::optional<HttpServer> server;
  std::shared_ptr<ServedModel> model;
  std::string key;
  Problems problems;
  problems.collect([&] { model = open_served_model(config, found.path, job); });
  problems.collect([&] { key = key_of(config.key_file); });
  problems.collect([&] {
    config.unix_socket.empty() ? server.emplace(host, config.port.value_or(place.port), limits, log)
                               : server.emplace(config.unix_socket, limits, log);
  });
  problems.throw_if_any();
  const unsigned long long wanted =
      static_cast<unsigned>(config.max_connections) + kOtherDescriptors;
  if (const unsigned long long allowed = allow_open_files(wanted); allowed < wanted)
    log.warning(
        formatted("The system allows only %llu open files (ulimit -Hn), too few for "
                  "--max-connections %d.",
                  allowed, config.max_connections));
  Service service(config, job, *server, routes_of(place), std::move(key), limits.body_bytes);
  job.log_model(model->predictor());
  log.info("serving:   " + (config.unix_socket.empty()
                                ? formatted("http://%s:%d", host.c_str(), server->port())
                                : config.unix_socket));
  service.use(std::move(model));
  server->start(service);
  int signal = 0;
  while (signal == 0 || signal == SIGHUP) {
    signal = signals.wait(config.unix_socket.empty() ? std::chrono::hours(1) : kAskInput);
    if (signal == SIGHUP) reload(config, place, job, service);
    if (signal == 0 && !config.unix_socket.empty() && is_input_closed()) break;  // nobody asks
  }
  const int code = signal == 0 ? 0 : end(signal, *server, service, signals, log);
  server->stop();
  return code;
}

}  // namespace kiln
