// One request for a file over HTTP and TLS, by libcurl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

struct DownloadCall {
  std::string url;             // without a fault_of_url()
  std::uint64_t from = 0;      // that many bytes are there: only the rest is asked for
  std::string validator = {};  // of these bytes; not empty where there are any
  int stall_s = 60;            // slower than kSlowBytes a second for so long is a failure
};

inline constexpr long kSlowBytes = 1000;

// What an answer says before its first byte.
struct DownloadHead {
  std::uint64_t from = 0;                   // 0: the whole file comes
  std::optional<std::uint64_t> total = {};  // bytes of the whole file
  // By which the server knows the file again: a strong ETag or Last-Modified. Empty: neither.
  std::string validator = {};
  bool shows_its_end = true;  // a truncated transfer cannot look complete
};

// Gets the file. What it throws ends the transfer and comes out of send().
class DownloadSink {
 public:
  virtual ~DownloadSink() = default;
  virtual void begin(const DownloadHead& head) = 0;  // once, before any bytes
  virtual void add(std::string_view bytes) = 0;
  virtual void look() = 0;  // about once a second and after all bytes, while the transfer lasts
};

struct DownloadEnd {
  enum class Kind {
    kWhole,
    kRedirect,   // to `location`
    kBeginAnew,  // the server does not send the rest of the same file
    kMayPass,    // a failure that may be gone at another attempt
    kFinal,      // a failure that will not
  };
  Kind kind = Kind::kFinal;
  std::string location = {};
  std::string failure = {};  // a clause: "HTTP status 404", "Connection refused"
  double retry_after_s = 0;  // what the server asks to wait; 0: it does not
};

// One thread, one call at a time. The connection is kept between calls. Proxies are those of the
// environment (https_proxy, no_proxy, …), but none for http://, which stays on this machine.
// Certificates are those of the system, or of CURL_CA_BUNDLE or SSL_CERT_FILE (PEM files), or of
// SSL_CERT_DIR. Redirects are reported and not followed.
class HttpDownload {
 public:
  HttpDownload();
  ~HttpDownload();
  HttpDownload(const HttpDownload&) = delete;
  HttpDownload& operator=(const HttpDownload&) = delete;

  DownloadEnd send(const DownloadCall& call, DownloadSink& sink);

 private:
  void* handle_;  // CURL
};

}  // namespace kiln
