#include "fetch/fetch_file.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "fetch/cache_entry.h"
#include "fetch/http_download.h"
#include "fetch/part_file.h"
#include "fetch/sha256.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRedirects = 10, kMostVainAttempts = 4;
// An attempt that brings less is vain: otherwise a server that drips could hold a run for ever.
constexpr std::uint64_t kLeastProgress = 64 << 10;
constexpr double kFirstPause = 0.5, kLongestPause = 60;
constexpr std::size_t kNameDigits = 8;

[[noreturn]] void fail(const std::string& url, const std::string& reason,
                       const std::string& advice) {
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "'" + shown_url(url) + "' cannot be downloaded: " + reason + ". " + advice);
}

// The digits that the file's SHA-256 must begin with, and where they were given.
struct Expected {
  std::string digits;  // empty: not given, any hash is allowed
  std::string source;

  bool allows(const std::string& hash) const { return hash.starts_with(digits); }
};

Expected expected_of(const FetchRequest& request) {
  if (!request.sha256.empty()) return {request.sha256, "--weights-sha256"};
  return {digits_in_name(file_name_of_url(request.url)), "its file name"};
}

// True if the cache has the complete file, undamaged and with the expected hash. Logs the result,
// except for a missing file.
bool is_in_cache(const CacheEntry& entry, const Expected& expected, Log& log) {
  const std::string recorded = entry.read().sha256;
  std::error_code fault;
  if (recorded.empty() || !fs::exists(entry.file(), fault)) return false;
  std::string hash;
  try {
    hash = sha256_of_file(entry.file());
  } catch (const std::system_error&) {
  }
  const std::string place = "The file in the cache, " + quoted_path(entry.file()) + ", ";
  if (hash != recorded) {
    log.info(place + "is damaged. It is downloaded again.");
    return false;
  }
  if (!expected.allows(hash)) {
    log.info(place + "does not match " + expected.source + ". It is downloaded again.");
    return false;
  }
  log.info("Already in the cache: " + quoted_path(entry.file()));
  return true;
}

// The download for one call of fetch_file(). The entry must be locked.
class Fetch {
 public:
  Fetch(const FetchRequest& request, CacheEntry& entry, Log& log)
      : request_(request), part_(entry, request.url, request.max_bytes, log), log_(log) {}

  // Retries until the part is complete. Throws Error for a permanent failure, or if retries do not
  // help.
  void run() {
    double pause = kFirstPause;
    for (int vain_attempts = 0;;) {
      const std::uint64_t before = part_.most_bytes();
      const DownloadEnd end = attempt();
      if (end.kind == DownloadEnd::Kind::kWhole) return;
      if (end.kind == DownloadEnd::Kind::kFinal) fail(end.failure, "Check the URL.");
      const bool is_vain = part_.most_bytes() < before + kLeastProgress;
      vain_attempts = is_vain ? vain_attempts + 1 : 0;
      if (!is_vain) pause = kFirstPause;
      const double wait = std::max(pause, end.retry_after_s);
      if (vain_attempts == kMostVainAttempts || wait > kLongestPause)
        fail(end.failure, "Try again later: the same command resumes the download.");
      log_.info("The transfer failed (" + end.failure + "); retrying in " + duration_text(wait) +
                ".");
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      pause = std::min(2 * pause, kLongestPause);
    }
  }

  // Returns the SHA-256 of the part, as read back from the disk.
  std::string finish() { return part_.finish(); }

 private:
  [[noreturn]] void fail(const std::string& reason, const std::string& advice) const {
    kiln::fail(request_.url, reason, advice);
  }

  // Makes one attempt, following redirects.
  DownloadEnd attempt() {
    std::string url = request_.url;
    for (int num_redirects = 0;;) {
      DownloadEnd end = download_.send({.url = url,
                                        .from = part_.size(),
                                        .validator = part_.validator(),
                                        .stall_s = request_.stall_s},
                                       part_);
      if (end.kind == DownloadEnd::Kind::kBeginAnew) {
        part_.forget();  // the next request is for the whole file
      } else if (end.kind == DownloadEnd::Kind::kRedirect) {
        if (++num_redirects > kMostRedirects)
          fail("it goes through more than " + std::to_string(kMostRedirects) + " redirects",
               "Check the URL.");
        check_redirect(url, end.location);
        url = end.location;
      } else {
        return end;
      }
    }
  }

  void check_redirect(const std::string& from, const std::string& to) const {
    std::string fault = fault_of_url(to);
    if (fault.empty() && is_plain_http(to) && !is_plain_http(from))
      fault = "http:// is not encrypted";
    if (!fault.empty())
      fail("it redirects to '" + shown_url(to) + "', which is not followed (" + fault + ")",
           "Give the URL of the file itself.");
  }

  const FetchRequest& request_;
  HttpDownload download_;
  PartFile part_;
  Log& log_;
};

void refuse_other_hash(const FetchRequest& request, const Expected& expected,
                       const std::string& hash) {
  const std::string advice =
      request.sha256.empty()
          ? "If these digits are not a hash, give the full one with --weights-sha256."
          : "Check the URL and the hash.";
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "The file from '" + shown_url(request.url) + "' has the SHA-256 " + hash + ", but " +
                  expected.source + " says " + expected.digits +
                  ": it is damaged or a different file, and was removed. " + advice);
}

void tell_hash(const Expected& expected, const std::string& hash, Log& log) {
  log.info("SHA-256 " + hash +
           (expected.digits.empty() ? ", not verified: give it as --weights-sha256 next time"
                                    : ", matches " + expected.source));
}

}  // namespace

std::string digits_in_name(const std::string& file_name) {
  const std::size_t dash = file_name.rfind('-');
  const std::size_t end = dash == file_name.npos ? dash : file_name.find('.', dash);
  if (end == file_name.npos || end - dash != kNameDigits + 1) return "";
  std::string digits = file_name.substr(dash + 1, kNameDigits);
  if (digits.find_first_not_of("0123456789abcdef") != digits.npos) return "";
  const bool is_number = digits.find_first_not_of("0123456789") == digits.npos;
  const bool is_date = is_number && (digits.starts_with("19") || digits.starts_with("20"));
  return is_date ? "" : digits;
}

fs::path fetch_file(const FetchRequest& request, Log& log) {
  const std::string fault = fault_of_url(request.url);
  if (!fault.empty()) fail(request.url, fault, "Check the URL.");
  const Expected expected = expected_of(request);
  CacheEntry entry(weights_cache_folder(), request.url);
  const std::string known = entry.read().sha256;
  // Checked without the lock, which a read-only cache does not allow.
  if (is_in_cache(entry, expected, log)) return entry.file();
  entry.lock(log);
  const bool has_changed = entry.read().sha256 != known;  // by another process
  if (has_changed && is_in_cache(entry, expected, log)) return entry.file();
  Fetch fetch(request, entry, log);
  fetch.run();
  const std::string hash = fetch.finish();
  if (!expected.allows(hash)) {
    std::error_code fault_of_removal;
    fs::remove(entry.part(), fault_of_removal);
    entry.write({});
    refuse_other_hash(request, expected, hash);
  }
  keep(entry, hash);
  tell_hash(expected, hash, log);
  return entry.file();
}

}  // namespace kiln
