// A single HTTP(S) request for a file, using libcurl.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kiln {

struct DownloadCall {
  std::string url;             // fault_of_url() must be empty
  std::uint64_t from = 0;      // bytes that are there already; only the rest is requested
  std::string validator = {};  // of those bytes; not empty if there are any
  int stall_s = 60;            // fails after this many seconds below kSlowBytes per second
};

inline constexpr long kSlowBytes = 1000;

// What the response headers say.
struct DownloadHead {
  std::uint64_t from = 0;                   // 0: the whole file is sent
  std::optional<std::uint64_t> total = {};  // bytes of the whole file
  // A strong ETag or Last-Modified, by which the server recognizes this version of the file. Empty:
  // there is neither.
  std::string validator = {};
  bool shows_its_end = true;  // a truncated transfer can be detected
};

// Receives the file. An exception thrown here ends the transfer and propagates from send().
class DownloadSink {
 public:
  virtual ~DownloadSink() = default;
  virtual void begin(const DownloadHead& head) = 0;  // once, before any bytes
  virtual void add(std::string_view bytes) = 0;
  virtual void look() = 0;  // about once a second during the transfer, and after the last byte
};

struct DownloadEnd {
  enum class Kind {
    kWhole,
    kRedirect,   // to `location`
    kBeginAnew,  // the server does not send the rest of the same file: start over
    kMayPass,    // a failure that may not recur on a retry
    kFinal,      // a permanent failure
  };
  Kind kind = Kind::kFinal;
  std::string location = {};
  std::string failure = {};  // a clause: "HTTP status 404", "Connection refused"
  double retry_after_s = 0;  // how long the server asks to wait; 0: not specified
};

// Use from one thread. The connection is kept open between calls. Proxies are taken from the
// environment (https_proxy, no_proxy, …), but never used for http://, which stays on this machine.
// Certificates are those of the system, or of CURL_CA_BUNDLE or SSL_CERT_FILE (PEM files), or of
// SSL_CERT_DIR. Redirects are reported, not followed.
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
