#include "report/mlflow/http.h"

#include <curl/curl.h>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/curl_handle.h"

namespace kiln {
namespace {

constexpr std::size_t kMostAnswerBytes = std::size_t{4} << 20;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

std::size_t keep_answer(const char* bytes, std::size_t one, std::size_t count, void* answer) {
  auto& body = static_cast<HttpAnswer*>(answer)->body;
  if (body.size() + one * count > kMostAnswerBytes) return 0;
  body.append(bytes, one * count);
  return one * count;
}

File open_for_upload(const std::filesystem::path& path, CURL* handle) {
  std::error_code failure;
  const auto size = std::filesystem::file_size(path, failure);
  File file(failure ? nullptr : std::fopen(path.c_str(), "rbe"));
  if (file == nullptr)
    throw std::system_error(failure ? failure : std::error_code(errno, std::generic_category()),
                            "'" + path.string() + "' cannot be read");
  curl_easy_setopt(handle, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(handle, CURLOPT_READDATA, file.get());
  curl_easy_setopt(handle, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
  return file;
}

void set_login(CURL* handle, const HttpLogin& login) {
  if (!login.token.empty()) {
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, login.token.c_str());
  } else if (!login.user.empty()) {
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(handle, CURLOPT_USERNAME, login.user.c_str());
    curl_easy_setopt(handle, CURLOPT_PASSWORD, login.password.c_str());
  }
  if (!login.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, login.ca_file.c_str());
  if (login.insecure_tls) {
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  }
}

void set_limits(CURL* handle, const HttpCall& call) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a slow DNS lookup at the end
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
  curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(call.timeout_s * 1000) + 1);
  if (!call.is_long) return;
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kHttpStallBytes);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, kHttpStallSeconds);
}

// Does not repeat curl's messages about proxies: they include the value of http_proxy, which may
// contain a password.
std::string failure_words(CURLcode code, const std::string& reason) {
  if (code == CURLE_URL_MALFORMAT) return "the URL is malformed";
  if (code == CURLE_WRITE_ERROR) return "the response is too long";
  if (code == CURLE_SSL_CACERT_BADFILE)
    return "the certificates in MLFLOW_TRACKING_SERVER_CERT_PATH cannot be read";
  if (code == CURLE_COULDNT_RESOLVE_PROXY || reason.find("proxy") != std::string::npos)
    return "the proxy in http_proxy or https_proxy cannot be used";
  if (code == CURLE_UNSUPPORTED_PROTOCOL) return "the response is not HTTP";
  return reason.empty() ? curl_easy_strerror(code) : reason;
}

constexpr int kAttemptsUntilComplaint = 3;
constexpr double kFirstPause = 0.5, kLongestPause = 30, kLongestRetryAfter = 3600;

bool may_pass(const HttpAnswer& answer) {
  return answer.status == 0 || answer.status == 429 || answer.status >= 500;
}

}  // namespace

HttpClient::HttpClient(HttpLogin login) : login_(std::move(login)) {
  handle_ = open_curl();
}

HttpClient::~HttpClient() {
  close_curl(handle_);
}

HttpAnswer HttpClient::send(const HttpCall& call) {
  HttpAnswer answer;
  CurlReason reason{};
  begin_request(handle_, call.url, reason);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, keep_answer);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &answer);
  set_login(handle_, login_);
  set_limits(handle_, call);
  CurlHeaders headers;
  File file;
  if (call.method == HttpCall::Method::kPost) {
    headers.reset(curl_slist_append(nullptr, "Content-Type: application/json"));
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(call.json.size()));
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, call.json.c_str());
  } else if (call.method == HttpCall::Method::kPut) {
    file = open_for_upload(call.file, handle_);
  }
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  const CURLcode code = curl_easy_perform(handle_);
  if (code != CURLE_OK) {
    answer = {.failure = failure_words(code, reason.data())};
    return answer;
  }
  long status = 0;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &retry_after);
  answer.status = static_cast<int>(status);
  answer.retry_after_s = static_cast<double>(retry_after);
  return answer;
}

HttpAnswer PersistentHttp::call(HttpCall call) {
  const double timeout_s = call.timeout_s;
  HttpAnswer answer{.failure = "timed out"};
  double pause = kFirstPause;
  for (int attempt = 1;; ++attempt) {
    const double left = seconds_left();
    if (left <= 0) return answer;
    if (!call.is_long) call.timeout_s = std::min(timeout_s, left);
    answer = client_.send(call);
    if (!may_pass(answer)) return answer;
    if (attempt == kAttemptsUntilComplaint) complain_(failure_text(answer));
    if (!wait(pause, answer.retry_after_s)) return answer;
    pause = std::min(2 * pause, kLongestPause);
  }
}

void PersistentHttp::end_by(Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  end_ = end;
  hurried_.notify_all();
}

double PersistentHttp::seconds_left() {
  const std::lock_guard lock(mutex_);
  return std::chrono::duration<double>(end_ - Clock::now()).count();
}

bool PersistentHttp::wait(double pause, double at_least) {
  const auto after = [begin = Clock::now()](double seconds) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(std::min(seconds, kLongestRetryAfter)));
  };
  const auto ends = [&] { return end_ != Clock::time_point::max(); };
  std::unique_lock lock(mutex_);
  const bool ended_before = ends();
  if (!ended_before) hurried_.wait_until(lock, after(std::max(pause, at_least)), ends);
  if (!ends()) return true;
  const auto next = after(ended_before ? std::max(pause, at_least) : at_least);
  if (next >= end_) return false;
  hurried_.wait_until(lock, next, [] { return false; });
  return true;
}

std::string failure_text(const HttpAnswer& answer) {
  return answer.status == 0 ? answer.failure : "HTTP status " + std::to_string(answer.status);
}

}  // namespace kiln
