// HTTP over libcurl: one call at a time, and calls that are made again where that may help.
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

// One HTTP call at a time, over libcurl: a deadline, TLS, a login. Redirects are not followed, so
// that a login goes to nobody else.
struct HttpLogin {
  std::string token = {};  // bearer; where it is empty, user and password if there is one
  std::string user = {}, password = {};
  std::string ca_file = {};  // PEM: trusted instead of the system's certificates
  bool insecure_tls = false;
};

struct HttpCall {
  enum class Method { kGet, kPost, kPut };
  Method method = Method::kGet;
  std::string url = {};
  std::string json = {};            // of kPost
  std::filesystem::path file = {};  // of kPut
  double timeout_s = 5;             // 0: as long as bytes move
};

// So few bytes a second for so long are none.
inline constexpr long kHttpStallBytes = 10'000, kHttpStallSeconds = 60;

struct HttpAnswer {
  int status = 0;  // 0: there was none
  std::string body = {};
  std::string failure = {};  // of status 0: why
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

  // Throws std::system_error for a file that cannot be read; everything else is in the answer.
  HttpAnswer send(const HttpCall& call);

 private:
  HttpLogin login_;
  void* handle_;  // CURL; keeps its connection from call to call
};

// HTTP calls that are made again where that may help: after 429 (as long as Retry-After says), 5xx
// and calls without an answer, waiting from half a second to half a minute in between.
class PersistentHttp {
 public:
  using Clock = std::chrono::steady_clock;

  // `complain` hears the reason, on the calling thread, when three attempts in a row failed.
  PersistentHttp(const HttpLogin& login, std::function<void(const std::string&)> complain)
      : client_(login), complain_(std::move(complain)) {}

  // Returns when an attempt was answered for good, or when there is no time left for another: then
  // that attempt's failure. One thread.
  HttpAnswer call(HttpCall call);

  // From now on no attempt begins, and none with a timeout lasts, beyond `end`. Any thread.
  void end_by(Clock::time_point end);

 private:
  double seconds_left();
  // Shortens `pause`, but not `at_least`, when the end comes near. False: it comes before that.
  bool wait(double pause, double at_least);

  HttpClient client_;
  std::function<void(const std::string&)> complain_;
  std::mutex mutex_;
  std::condition_variable hurried_;
  Clock::time_point end_ = Clock::time_point::max();
};

// "it answers 503", "Connection refused".
std::string failure_text(const HttpAnswer& answer);

}  // namespace kiln
