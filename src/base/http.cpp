#include "base/http.h"

#include <curl/curl.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/system.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{4} << 20;
constexpr long kConnectSeconds = 5, kPatientConnectSeconds = 30;

// The state shared by the callbacks of one call.
struct Transfer {
  CURL* handle;
  const HttpCall& call;
  HttpAnswer answer = {};
  std::optional<HttpBody> body = {};  // once HttpCall::receive was called
  std::exception_ptr thrown = {};
};

long status_of(CURL* handle) {
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

HttpBody body_of(CURL* handle) {
  curl_off_t size = -1;
  long version = 0;
  curl_header* encoding = nullptr;
  curl_easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &size);
  curl_easy_getinfo(handle, CURLINFO_HTTP_VERSION, &version);
  if (size >= 0) return {.size = static_cast<std::uint64_t>(size)};
  return {.shows_its_end = version > CURL_HTTP_VERSION_1_1 ||
                           curl_easy_header(handle, "Transfer-Encoding", 0, CURLH_HEADER, -1,
                                            &encoding) == CURLHE_OK};
}

bool is_received(const Transfer& transfer) {
  return transfer.call.receive && status_of(transfer.handle) == 200;
}

// Returns false if the receiver threw, because exceptions must not pass through libcurl.
bool hand_over(Transfer& transfer, std::string_view bytes) {
  try {
    if (!transfer.body) transfer.body = body_of(transfer.handle);
    transfer.call.receive(*transfer.body, bytes);
    return true;
  } catch (...) {
    transfer.thrown = std::current_exception();
    return false;
  }
}

std::size_t take_bytes(const char* bytes, std::size_t one, std::size_t count, void* data) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  const std::size_t size = one * count;
  if (is_received(transfer)) return hand_over(transfer, {bytes, size}) ? size : 0;
  if (transfer.answer.body.size() + size > kMaxAnswerBytes) return 0;
  transfer.answer.body.append(bytes, size);
  return size;
}

int look(void* data, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up_total*/,
         curl_off_t /*up_now*/) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  return transfer.body && !hand_over(transfer, {}) ? 1 : 0;
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
}

void set_certificates(CURL* handle, const HttpLogin& login) {
  // libcurl, unlike the curl program, does not read the variables itself.
  std::string file = environment("CURL_CA_BUNDLE");
  if (file.empty()) file = environment("SSL_CERT_FILE");
  const std::string folder = environment("SSL_CERT_DIR");
  // The system's: Debian's, Red Hat's, SUSE's. libcurl knows only the place on the system that it
  // was built for.
  for (const char* of_system :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem"})
    if (file.empty() && is_file(of_system)) file = of_system;
  if (!file.empty() || !folder.empty()) {
    const char* const path = file.empty() ? nullptr : file.c_str();  // null: the folder alone
    curl_easy_setopt(handle, CURLOPT_CAINFO, path);
    curl_easy_setopt(handle, CURLOPT_PROXY_CAINFO, path);
  }
  if (!folder.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAPATH, folder.c_str());
    curl_easy_setopt(handle, CURLOPT_PROXY_CAPATH, folder.c_str());
  }
  if (!login.ca_file.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, login.ca_file.c_str());
  curl_easy_setopt(handle, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, login.insecure_tls ? 0L : 1L);
  curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, login.insecure_tls ? 0L : 2L);
}

void set_limits(CURL* handle, const HttpCall& call) {
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a slow DNS lookup at the end
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
  if (!call.use_proxy) curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 256L << 10);
  if (call.timeout_s > 0)
    curl_easy_setopt(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(call.timeout_s * 1000) + 1);
  const long stall = call.stall_s;
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT,
                   stall > 0 ? std::min(kPatientConnectSeconds, stall) : kConnectSeconds);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kHttpSlowBytes);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, stall);
}

bool may_pass(CURLcode code) {
  constexpr auto kCodes = std::to_array<CURLcode>(
      {CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
       CURLE_OPERATION_TIMEDOUT, CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_SEND_ERROR,
       CURLE_RECV_ERROR, CURLE_SSL_CONNECT_ERROR, CURLE_HTTP2, CURLE_HTTP2_STREAM});
  return std::ranges::count(kCodes, code) > 0;
}

bool may_pass(long status) {
  return status == 408 || status == 429 || status >= 500;
}

// Does not repeat curl's messages about proxies: they may include the value of https_proxy, and
// thus a password.
HttpAnswer failure_of(CURLcode code, CURL* handle, const std::string& reason,
                      const HttpLogin& login) {
  const std::string proxy = "the proxy in http_proxy, https_proxy or ALL_PROXY cannot be used";
  long by_proxy = 0;
  curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &by_proxy);
  if (by_proxy >= 300)
    return {.failure = proxy + ": it returned HTTP status " + std::to_string(by_proxy),
            .may_pass = may_pass(by_proxy)};
  std::string text = reason.empty() ? curl_easy_strerror(code) : reason;
  if (code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY ||
      reason.find("roxy") != reason.npos) {
    text = proxy;
  } else if (code == CURLE_SSL_CACERT_BADFILE) {
    text = login.ca_file.empty() ? "no CA certificates can be read: set SSL_CERT_FILE to a PEM file"
                                 : "the CA certificates in '" + login.ca_file + "' cannot be read";
  } else if (code == CURLE_PEER_FAILED_VERIFICATION) {
    text = "the server's certificate is not trusted (" + text +
           "). If a private CA signed it, set SSL_CERT_FILE to the PEM file of that CA";
  } else if (code == CURLE_URL_MALFORMAT) {
    text = "the URL is malformed";
  } else if (code == CURLE_WRITE_ERROR) {
    text = "the response is too long";
  } else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
    text = "the response is not HTTP";
  }
  return {.failure = text, .may_pass = may_pass(code)};
}

}  // namespace

std::string failure_text(const HttpAnswer& answer) {
  return answer.status == 0 ? answer.failure : "HTTP status " + std::to_string(answer.status);
}

HttpClient::HttpClient(HttpLogin login) : login_(std::move(login)) {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  handle_ = curl_easy_init();
  if (handle_ == nullptr) throw std::bad_alloc();
}

HttpClient::~HttpClient() {
  curl_easy_cleanup(handle_);
  curl_global_cleanup();
}

HttpAnswer HttpClient::send(const HttpCall& call) {
  std::array<char, CURL_ERROR_SIZE> reason{};
  Transfer transfer{.handle = handle_, .call = call};
  curl_easy_reset(handle_);  // the connection stays open
  curl_easy_setopt(handle_, CURLOPT_URL, call.url.c_str());
  curl_easy_setopt(handle_, CURLOPT_USERAGENT, "kiln");
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, reason.data());
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle_, CURLOPT_XFERINFOFUNCTION, look);
  curl_easy_setopt(handle_, CURLOPT_XFERINFODATA, &transfer);
  set_login(handle_, login_);
  set_certificates(handle_, login_);
  set_limits(handle_, call);
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(
      curl_slist_append(nullptr, "Accept-Encoding: identity"), curl_slist_free_all);
  if (headers != nullptr && call.method != HttpCall::Method::kGet)
    curl_slist_append(headers.get(), call.method == HttpCall::Method::kPost
                                         ? "Content-Type: application/json"
                                         : "Content-Type: application/octet-stream");
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  if (call.method != HttpCall::Method::kGet) {
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(call.body.size()));
    curl_easy_setopt(handle_, CURLOPT_POSTFIELDS, call.body.data());
    if (call.method == HttpCall::Method::kPut)
      curl_easy_setopt(handle_, CURLOPT_CUSTOMREQUEST, "PUT");
  }
  const CURLcode code = curl_easy_perform(handle_);
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
  if (code == CURLE_OK && is_received(transfer)) hand_over(transfer, {});
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (code != CURLE_OK) return failure_of(code, handle_, reason.data(), login_);
  HttpAnswer answer = std::move(transfer.answer);
  const long status = status_of(handle_);
  char* location = nullptr;
  curl_off_t retry_after = 0;
  curl_easy_getinfo(handle_, CURLINFO_REDIRECT_URL, &location);
  curl_easy_getinfo(handle_, CURLINFO_RETRY_AFTER, &retry_after);
  answer.status = static_cast<int>(status);
  answer.may_pass = may_pass(status);
  if (location != nullptr) answer.location = location;
  answer.retry_after_s = static_cast<double>(retry_after);
  return answer;
}

}  // namespace kiln
