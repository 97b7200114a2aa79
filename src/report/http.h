// One HTTP call at a time, over libcurl: a deadline, TLS, a login. Redirects are not followed, so
// that a login goes to nobody else.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace kiln {

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

}  // namespace kiln
