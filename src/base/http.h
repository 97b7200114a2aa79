// HTTP(S) requests over libcurl, and the text of URLs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

struct HttpLogin {
  std::string token = {};  // bearer token; if empty, user and password are used, if set
  std::string user = {}, password = {};
  std::string ca_file = {};  // PEM file, trusted instead of the default one
  bool insecure_tls = false;
};

// What the headers of a response say of its body.
struct HttpBody {
  std::optional<std::uint64_t> size = {};
  bool shows_its_end = true;  // a truncated one can be detected
};

struct HttpCall {
  enum class Method { kGet, kPost, kPut };
  Method method = Method::kGet;
  std::string url = {};
  std::string body = {};  // of kPost, JSON, and of kPut
  // Gets the body of a response with status 200 piece by piece, in place of HttpAnswer::body. Also
  // called without bytes, about once a second and at the end. An exception thrown here ends the
  // call and propagates from send().
  std::function<void(const HttpBody& body, std::string_view bytes)> receive = {};
  double timeout_s = 5;  // for the whole call; 0: unlimited
  int stall_s = 0;       // fails after this many seconds below kHttpSlowBytes per second; 0: never
  bool use_proxy = true;
};

inline constexpr long kHttpSlowBytes = 1000;

struct HttpAnswer {
  int status = 0;  // 0: no response
  std::string body = {};
  std::string location = {};  // where a redirect leads to
  std::string failure = {};   // if status is 0: the reason, without secrets
  bool may_pass = false;      // a failure that may not recur on a retry
  double retry_after_s = 0;   // how long the server asks to wait

  bool ok() const { return status >= 200 && status < 300; }
};

// "HTTP status 503", "Connection refused".
std::string failure_text(const HttpAnswer& answer);

// Use from one thread. The connection is kept open between calls. Proxies are taken from the
// environment (https_proxy, no_proxy, …). Certificates are those of the login, else of
// CURL_CA_BUNDLE or SSL_CERT_FILE (PEM files) and SSL_CERT_DIR, else the system's. Redirects are
// not followed, so credentials never reach another server.
class HttpClient {
 public:
  // Throws std::bad_alloc.
  explicit HttpClient(HttpLogin login = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Throws std::system_error if the file to send cannot be read; all other failures are in the
  // answer.
  HttpAnswer send(const HttpCall& call);

 private:
  HttpLogin login_;
  void* handle_;  // CURL
};

}  // namespace kiln
