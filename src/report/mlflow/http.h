// HTTP over libcurl: single calls, and calls with retries.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace kiln {

// Makes one HTTP call at a time, over libcurl, with a deadline, TLS and login. Redirects are not
// followed, so that credentials are never sent to another server.
struct HttpLogin {
  std::string token = {};  // bearer token; if empty, user and password are used, if set
  std::string user = {}, password = {};
  std::string ca_file = {};  // PEM file, trusted instead of the system's certificates
  bool insecure_tls = false;
};

struct HttpCall {
  enum class Method { kGet, kPost, kPut };
  Method method = Method::kGet;
  std::string url = {};
  std::string json = {};            // body of kPost
  std::filesystem::path file = {};  // body of kPut
  double timeout_s = 5;
  // For large uploads: the call may continue past PersistentHttp::end_by(), up to `timeout_s`,
  // unless it stalls.
  bool is_long = false;
};

// A long transfer has stalled if it is slower than this many bytes per second for this many
// seconds.
inline constexpr long kHttpStallBytes = 10'000, kHttpStallSeconds = 60;

struct HttpAnswer {
  int status = 0;  // 0: no response
  std::string body = {};
  std::string failure = {};  // if status is 0: the reason
  double retry_after_s = 0;

  bool ok() const { return status >= 200 && status < 300; }
};

// One thread.
class HttpClient {
 public:
  explicit HttpClient(HttpLogin login);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Throws std::system_error if the file cannot be read; all other failures are reported in the
  // answer.
  HttpAnswer send(const HttpCall& call);

 private:
  HttpLogin login_;
  void* handle_;  // CURL; reuses its connection between calls
};

// HTTP calls with retries after 429 (obeying Retry-After), 5xx, or no response, with a backoff from
// half a second to half a minute.
class PersistentHttp {
 public:
  using Clock = std::chrono::steady_clock;

  // `complain` is called with the reason, on the calling thread, after three failed attempts in a
  // row.
  PersistentHttp(const HttpLogin& login, std::function<void(const std::string&)> complain)
      : client_(login), complain_(std::move(complain)) {}

  // Returns the first final response, or the last failure if there is no time for another attempt.
  // One thread.
  HttpAnswer call(HttpCall call);

  // From now on no attempt starts after `end`, and only long ones (HttpCall::is_long) may continue
  // past it. Any thread.
  void end_by(Clock::time_point end);

 private:
  double seconds_left();
  // Waits for `pause`, shortened near the end but not below `at_least`. Returns false if the end
  // comes before that.
  bool wait(double pause, double at_least);

  HttpClient client_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  Clock::time_point end_ = Clock::time_point::max();
};

// "HTTP status 503", "Connection refused".
std::string failure_text(const HttpAnswer& answer);

}  // namespace kiln
