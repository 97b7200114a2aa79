// An HTTP/1.1 server (RFC 9110, 9112) over Boost.Beast that knows nothing of models. One thread
// waits for all connections, so a slow client costs memory within limits and never a thread. TLS is
// a proxy's job.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"

namespace kiln {

struct HttpHeader {
  std::string name, value;  // a request's names are in small letters
};

struct HttpRequest {
  std::string method, path;  // the path ends before a "?"
  std::vector<HttpHeader> headers = {};
  std::string body = {};

  // The first of that name; empty if there is none. `name` is in small letters.
  std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";  // empty: none
  std::string body = {};
  std::vector<HttpHeader> headers = {};
};

// {"error": "…"}, with Retry-After if the status is 503.
HttpResponse error_response(int status, const std::string& sentence,
                            std::vector<HttpHeader> headers = {});

// What is being caught, as a clause for the log: also a lack of memory, without the advice of
// commands with other options.
std::string caught_fault();

// Answers one request, from any thread, once. Without an answer the destructor sends status 500.
class Responder {
 public:
  explicit Responder(std::function<void(HttpResponse)> send) : send_(std::move(send)) {}
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;
  void answer(HttpResponse response) { std::exchange(send_, nullptr)(std::move(response)); }

 private:
  std::function<void(HttpResponse)> send_;
};

// Both functions are called on the server's thread and return soon.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // The headers have arrived. With a response here the body is not read.
  virtual std::optional<HttpResponse> refuse(const HttpRequest& head) = 0;
  virtual void handle(HttpRequest request, std::shared_ptr<Responder> responder) = 0;
  // The server answered a request itself, which it could not read or had no room for.
  virtual void add_refusal(int status) = 0;
};

struct HttpLimits {
  std::size_t body_bytes = 0;  // of one request; beyond: 413
  // Of the bodies of all requests, as announced, and their answers together; beyond: 503.
  std::size_t total_bytes = 0;
  std::size_t connections = 0;  // beyond: 503
  // For the headers to arrive, for the body to arrive, and for an answer to be taken; also how long
  // a connection may be idle.
  int seconds = 0;
};

class HttpServer {
 public:
  // Binds the port; 0: any free one. Throws Error kUserError. The log must outlive it.
  HttpServer(const std::string& host, int port, const HttpLimits& limits, Log& log);
  // Binds a socket in a folder, which is made for its owner alone if it is missing, as the socket
  // is. Throws Error kUserError. `file`: at most 107 bytes.
  HttpServer(const std::filesystem::path& file, const HttpLimits& limits, Log& log);
  // Stops, and removes the socket. Responders that still exist must be gone.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;  // not of a socket in a folder
  // Answers requests from now on. The handler must live until stop() has returned.
  void start(HttpHandler& handler);

  // From now on every response is the last of its connection.
  void end_connections();
  // Refuses new connections, and closes those on which no request has begun.
  void stop_listening();
  void stop();

  // Requests whose headers have arrived and whose response has not been sent.
  int num_active() const;
  int num_connections() const;

  struct Core;  // known to http_server.cpp alone

 private:
  std::unique_ptr<Core> core_;
};

}  // namespace kiln
