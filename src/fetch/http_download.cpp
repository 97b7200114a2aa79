#include "fetch/http_download.h"

#include <curl/curl.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <memory>

#include "base/curl_handle.h"
#include "base/url.h"

namespace kiln {
namespace {

constexpr long kConnectSeconds = 30;
constexpr std::size_t kMostValidatorBytes = 200, kMostIgnoredBytes = std::size_t{1} << 20;

// The state shared by the callbacks of one transfer.
struct Transfer {
  CURL* handle;
  const DownloadCall& call;
  DownloadSink& sink;
  bool has_begun = false;
  bool is_not_the_rest = false;       // the response is not the requested rest of the file
  std::size_t num_ignored_bytes = 0;  // in the body of an error response
  std::exception_ptr thrown = {};
};

long status_of(CURL* handle) {
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

// Returns a header of the last response; empty if it is missing.
std::string header(CURL* handle, const char* name) {
  curl_header* found = nullptr;
  if (curl_easy_header(handle, name, 0, CURLH_HEADER, -1, &found) != CURLHE_OK) return {};
  return found->value;
}

std::string validator_of(CURL* handle) {
  std::string tag = header(handle, "ETag");  // weak ones (W/…) do not identify the bytes
  if (!tag.starts_with('"') || tag.size() > kMostValidatorBytes) tag.clear();
  if (tag.empty()) tag = header(handle, "Last-Modified");
  return tag.size() > kMostValidatorBytes ? "" : tag;
}

bool is_etag(const std::string& validator) {
  return validator.starts_with('"');
}

bool read_number(std::string_view& text, std::uint64_t& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}

// Parses "bytes 100-199/200" or "bytes 100-199/*". Returns false if it is malformed, or not the
// rest of the file beginning at `from`.
bool read_content_range(std::string_view text, std::uint64_t from, DownloadHead& head) {
  constexpr std::string_view kUnit = "bytes ";
  std::uint64_t last = 0, total = 0;
  if (!text.starts_with(kUnit)) return false;
  text.remove_prefix(kUnit.size());
  if (!read_number(text, head.from) || head.from != from || !text.starts_with('-')) return false;
  text.remove_prefix(1);
  if (!read_number(text, last) || last < from || last == UINT64_MAX || !text.starts_with('/'))
    return false;
  text.remove_prefix(1);
  if (text == "*") return true;
  // Only the whole rest of the file is useful.
  if (!read_number(text, total) || !text.empty() || total != last + 1) return false;
  head.total = total;
  return true;
}

// Servers that ignore If-Range send the rest of whatever version they have now.
bool is_of_the_same(CURL* handle, const std::string& validator) {
  const std::string now = validator_of(handle);
  return now == validator || (now.empty() && !is_etag(validator));
}

bool head_of(const Transfer& transfer, DownloadHead& head) {
  CURL* handle = transfer.handle;
  curl_off_t length = -1;
  long version = 0;
  curl_easy_getinfo(handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  curl_easy_getinfo(handle, CURLINFO_HTTP_VERSION, &version);
  head.validator = validator_of(handle);
  head.shows_its_end = length >= 0 || version > CURL_HTTP_VERSION_1_1 ||
                       !header(handle, "Transfer-Encoding").empty();
  if (status_of(handle) != 206) {
    if (length >= 0) head.total = static_cast<std::uint64_t>(length);
    return true;
  }
  return transfer.call.from > 0 && is_of_the_same(handle, transfer.call.validator) &&
         read_content_range(header(handle, "Content-Range"), transfer.call.from, head);
}

bool has_file(long status) {
  return status == 200 || status == 206;
}

// Returns false if the response cannot be used.
bool begin(Transfer& transfer) {
  transfer.has_begun = true;
  DownloadHead head;
  transfer.is_not_the_rest = !head_of(transfer, head);
  if (transfer.is_not_the_rest) return false;
  transfer.sink.begin(head);
  return true;
}

// Keeps an exception in `transfer` and returns false, because exceptions must not pass through
// libcurl.
template <typename Work>
bool guarded(Transfer& transfer, Work&& work) {
  try {
    return work();
  } catch (...) {
    transfer.thrown = std::current_exception();
    return false;
  }
}

std::size_t take_bytes(const char* bytes, std::size_t one, std::size_t count, void* data) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  const std::size_t size = one * count;
  const bool goes_on = guarded(transfer, [&] {
    if (!has_file(status_of(transfer.handle))) {
      transfer.num_ignored_bytes += size;
      return transfer.num_ignored_bytes <= kMostIgnoredBytes;
    }
    if (!transfer.has_begun && !begin(transfer)) return false;
    transfer.sink.add({bytes, size});
    return true;
  });
  return goes_on ? size : 0;
}

int look(void* data, curl_off_t /*total*/, curl_off_t /*now*/, curl_off_t /*up_total*/,
         curl_off_t /*up_now*/) {
  Transfer& transfer = *static_cast<Transfer*>(data);
  const bool goes_on = guarded(transfer, [&] {
    if (transfer.has_begun) transfer.sink.look();
    return true;
  });
  return goes_on ? 0 : 1;
}

// Returns the value of the first of these variables that is set; empty if none is.
std::string own_certificates() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

// libcurl, unlike the curl program, does not read these variables itself.
void set_certificates(CURL* handle) {
  const std::string file = own_certificates();
  if (!file.empty()) {
    curl_easy_setopt(handle, CURLOPT_CAINFO, file.c_str());
    curl_easy_setopt(handle, CURLOPT_PROXY_CAINFO, file.c_str());
  }
  const char* folder = std::getenv("SSL_CERT_DIR");
  if (folder == nullptr || *folder == '\0') return;
  curl_easy_setopt(handle, CURLOPT_CAPATH, folder);
  curl_easy_setopt(handle, CURLOPT_PROXY_CAPATH, folder);
}

void set_limits(CURL* handle, const DownloadCall& call) {
  const bool is_local = is_plain_http(call.url);
  curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, is_local ? "http" : "https");
  if (is_local) curl_easy_setopt(handle, CURLOPT_PROXY, "");
  curl_easy_setopt(handle, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
  curl_easy_setopt(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT,
                   std::min(kConnectSeconds, static_cast<long>(call.stall_s)));
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, kSlowBytes);
  curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, static_cast<long>(call.stall_s));
}

CurlHeaders headers_of(const DownloadCall& call) {
  curl_slist* list = curl_slist_append(nullptr, "Accept-Encoding: identity");
  if (call.from > 0) {
    curl_slist* longer = curl_slist_append(list, ("If-Range: " + call.validator).c_str());
    if (longer != nullptr) list = longer;
  }
  return CurlHeaders(list);
}

bool may_pass(CURLcode code) {
  constexpr std::array kCodes = {CURLE_COULDNT_RESOLVE_PROXY,
                                 CURLE_COULDNT_RESOLVE_HOST,
                                 CURLE_COULDNT_CONNECT,
                                 CURLE_OPERATION_TIMEDOUT,
                                 CURLE_PARTIAL_FILE,
                                 CURLE_GOT_NOTHING,
                                 CURLE_SEND_ERROR,
                                 CURLE_RECV_ERROR,
                                 CURLE_SSL_CONNECT_ERROR,
                                 CURLE_HTTP2,
                                 CURLE_HTTP2_STREAM};
  return std::find(kCodes.begin(), kCodes.end(), code) != kCodes.end();
}

bool may_pass(long status) {
  return status == 408 || status == 429 || status >= 500;
}

std::string proxy_failure(long status) {
  std::string text = "the proxy in https_proxy or ALL_PROXY cannot be used";
  if (status != 0) text += ": it returned HTTP status " + std::to_string(status);
  return text;
}

// Does not repeat curl's messages about proxies: they may include the value of https_proxy, and
// thus a password.
DownloadEnd failure_of(CURLcode code, CURL* handle, const std::string& reason, int stall_s) {
  const auto kind = may_pass(code) ? DownloadEnd::Kind::kMayPass : DownloadEnd::Kind::kFinal;
  long by_proxy = 0;
  curl_easy_getinfo(handle, CURLINFO_HTTP_CONNECTCODE, &by_proxy);
  if (by_proxy >= 300) {
    return {.kind = may_pass(by_proxy) ? DownloadEnd::Kind::kMayPass : DownloadEnd::Kind::kFinal,
            .failure = proxy_failure(by_proxy)};
  }
  const bool names_proxy = reason.find("roxy") != reason.npos;
  if (code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_PROXY || names_proxy)
    return {.kind = kind, .failure = proxy_failure(0)};
  std::string text = reason.empty() ? curl_easy_strerror(code) : reason;
  if (code == CURLE_SSL_CACERT_BADFILE) {
    text = "no CA certificates can be read: set SSL_CERT_FILE to a PEM file";
  } else if (code == CURLE_PEER_FAILED_VERIFICATION) {
    text = "the server's certificate is not trusted (" + text +
           "). If a private CA signed it, set SSL_CERT_FILE to the PEM file of that CA";
  } else if (code == CURLE_OPERATION_TIMEDOUT) {
    text = "almost no data arrived for " + std::to_string(stall_s) + " s";
  } else if (code == CURLE_PARTIAL_FILE) {
    text = "the server closed the connection early";
  } else if (code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY) {
    text = "the response is not HTTP";
  }
  return {.kind = kind, .failure = text};
}

DownloadEnd end_of(CURL* handle, bool asked_for_rest) {
  using Kind = DownloadEnd::Kind;
  const long status = status_of(handle);
  if (has_file(status)) return {.kind = Kind::kWhole};
  if (status == 416 && asked_for_rest) return {.kind = Kind::kBeginAnew};
  char* location = nullptr;
  curl_easy_getinfo(handle, CURLINFO_REDIRECT_URL, &location);
  if (location != nullptr) return {.kind = Kind::kRedirect, .location = location};
  curl_off_t retry_after = 0;
  curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after);
  return {.kind = may_pass(status) ? Kind::kMayPass : Kind::kFinal,
          .failure = "HTTP status " + std::to_string(status),
          .retry_after_s = static_cast<double>(retry_after)};
}

}  // namespace

HttpDownload::HttpDownload() {
  handle_ = open_curl();
}

HttpDownload::~HttpDownload() {
  close_curl(handle_);
}

DownloadEnd HttpDownload::send(const DownloadCall& call, DownloadSink& sink) {
  CurlReason reason{};
  Transfer transfer{.handle = handle_, .call = call, .sink = sink};
  begin_request(handle_, call.url, reason);
  curl_easy_setopt(handle_, CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt(handle_, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(handle_, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(handle_, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle_, CURLOPT_XFERINFOFUNCTION, look);
  curl_easy_setopt(handle_, CURLOPT_XFERINFODATA, &transfer);
  set_limits(handle_, call);
  set_certificates(handle_);
  const CurlHeaders headers = headers_of(call);
  curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get());
  const std::string range = std::to_string(call.from) + "-";
  if (call.from > 0) curl_easy_setopt(handle_, CURLOPT_RANGE, range.c_str());
  const CURLcode code = curl_easy_perform(handle_);
  curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
  // For an empty file, curl has not called take_bytes().
  if (code == CURLE_OK && !transfer.has_begun && has_file(status_of(handle_)))
    guarded(transfer, [&] { return begin(transfer); });
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  if (transfer.is_not_the_rest) {
    if (call.from > 0) return {.kind = DownloadEnd::Kind::kBeginAnew};
    return {.kind = DownloadEnd::Kind::kFinal,
            .failure = "the server sent only a part of the file"};
  }
  const bool has_answer = code == CURLE_OK || transfer.num_ignored_bytes > kMostIgnoredBytes;
  return has_answer ? end_of(handle_, call.from > 0)
                    : failure_of(code, handle_, reason.data(), call.stall_s);
}

}  // namespace kiln
