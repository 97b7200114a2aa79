#include "model/weights/fetch_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
#include <optional>
#include <system_error>
#include <thread>

#include "base/digest.h"
#include "base/error.h"
#include "base/files.h"
#include "base/http.h"
#include "base/system.h"
#include "base/text.h"
#include "base/transfer.h"
#include "base/url.h"
#include "model/catalogue.h"
#include "store/state_dict_file.h"

namespace kiln {

std::string sha256_of(std::string_view bytes) {
  Digest hash(Digest::kSha256);
  hash.add(bytes);
  return hex_text(hash.bytes());
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Digest hash(Digest::kSha256);
  read_in_pieces(path, [&](std::string_view piece) { hash.add(piece); });
  return hex_text(hash.bytes());
}

namespace {

namespace fs = std::filesystem;

constexpr int kMaxRedirects = 10, kMaxAttempts = 4;
constexpr double kFirstPause = 0.5, kLongestPause = 60;
constexpr std::size_t kNameDigits = 8, kUrlDigits = 8, kSha256Digits = 64;
constexpr std::string_view kHexDigits = "0123456789abcdef";
constexpr std::string_view kRecordBegin = "kiln-fetch-1\nsha256 ";

[[noreturn]] void fail(const std::string& url, const std::string& reason,
                       const std::string& advice) {
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "'" + url + "' cannot be downloaded: " + reason + ". " + advice +
                  " Or download it elsewhere and give the file, or leave --weights out.");
}

// The SHA-256 in the record of a file in the cache; empty if there is none, or if it is damaged.
std::string recorded_in(const fs::path& record) try {
  const std::string text = read_file(record, kRecordBegin.size() + kSha256Digits + 1);
  const std::size_t end = text.find_first_not_of(kHexDigits, kRecordBegin.size());
  if (!text.starts_with(kRecordBegin) || end != kRecordBegin.size() + kSha256Digits ||
      !text.ends_with('\n'))
    return "";
  return text.substr(kRecordBegin.size(), kSha256Digits);
} catch (const std::exception&) {
  return "";
}

// Creates the record of a file and its folder, waits until no other process has it locked, and
// removes what killed ones left. On file systems without locks, goes on without one.
Descriptor locked(const fs::path& file, const fs::path& record, Log& log) {
  make_folders(record.parent_path());
  Descriptor descriptor(
      ::open(record.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (descriptor.number() < 0) fail_to_write(record, errno);
  const LockResult result = lock_soon(
      descriptor.number(),
      [&] { log.info("Waiting for another process that is downloading the same file."); },
      std::numeric_limits<double>::infinity());
  if (result == LockResult::kTaken) remove_leftovers_of(file);
  return descriptor;
}

// Writes what arrives of the file, and shows progress.
class Arrival {
 public:
  Arrival(const FetchRequest& request, const fs::path& file, Log& log)
      : request_(request), path_(file), log_(log) {}

  void add(const HttpBody& body, std::string_view bytes) {
    if (!file_) begin(body);
    size_ += bytes.size();
    check_size(size_);
    if (!bytes.empty()) file_->write(bytes);
    transfer_->show(size_);
  }

  // The file, synced, which still has a temporary name.
  DurableFile finish() {
    if (size_ == 0)
      throw Error(ErrorCode::kFailedToDownloadFiles,
                  "'" + request_.url + "' cannot be used: it is an empty file. Check the URL.");
    transfer_->end(size_);
    file_->finish();
    return *std::move(file_);
  }

 private:
  void begin(const HttpBody& body) {
    if (!body.shows_its_end)
      fail(request_.url,
           "the server does not report the file's length, so a truncated file would go unnoticed",
           "Download it yourself and give its path.");
    total_ = body.size.value_or(0);
    check_size(total_);
    require_room(path_.parent_path(), total_, "'" + request_.url + "' cannot be downloaded: it",
                 "Free some space there.");
    file_.emplace(path_);
    log_.info("Downloading '" + request_.url + "'" +
              (total_ > 0 ? " (" + bytes_text(total_) + ")" : "") + " to " +
              quoted_path(path_.parent_path()));
    transfer_.emplace(log_, total_);
  }

  void check_size(std::uint64_t size) const {
    if (size <= request_.max_bytes) return;
    fail(request_.url,
         "it has " + (total_ > 0 ? grouped(static_cast<long long>(total_)) + " bytes, " : "") +
             "more than the " + bytes_text(request_.max_bytes) + " allowed for weights",
         "Check the URL.");
  }

  const FetchRequest& request_;
  const fs::path path_;
  Log& log_;
  std::optional<DurableFile> file_;
  std::uint64_t size_ = 0, total_ = 0;  // a total of 0: unknown
  std::optional<Transfer> transfer_;
};

// Makes one attempt, following redirects.
HttpAnswer attempt(HttpClient& client, const FetchRequest& request, Arrival& arrival) {
  HttpCall call{
      .url = request.url,
      .receive = [&](const HttpBody& body, std::string_view bytes) { arrival.add(body, bytes); },
      .timeout_s = 0,
      .stall_s = request.stall_s};
  for (int num_redirects = 0;;) {
    call.use_proxy = !is_plain_http(call.url);  // http:// stays on this machine
    HttpAnswer answer = client.send(call);
    if (answer.location.empty()) return answer;
    if (++num_redirects > kMaxRedirects)
      fail(request.url, "it goes through more than " + std::to_string(kMaxRedirects) + " redirects",
           "Check the URL.");
    const std::string& to = answer.location;
    std::string fault = fault_of_url(to);
    if (fault.empty() && is_plain_http(to) && !is_plain_http(call.url))
      fault = "http:// is not encrypted";
    if (!fault.empty())
      fail(request.url, "it redirects to '" + to + "', which is not followed (" + fault + ")",
           "Give the URL of the file itself.");
    call.url = to;
  }
}

// Fetches the file whole, in a few attempts. It still has a temporary name.
DurableFile fetch(const FetchRequest& request, const fs::path& file, Log& log) {
  HttpClient client;
  double pause = kFirstPause;
  for (int num_attempts = 1;; ++num_attempts) {
    Arrival arrival(request, file, log);
    const HttpAnswer answer = attempt(client, request, arrival);
    if (answer.status == 200) return arrival.finish();
    if (!answer.may_pass) fail(request.url, failure_text(answer), "Check the URL.");
    const double wait = std::max(pause, answer.retry_after_s);
    if (num_attempts == kMaxAttempts || wait > kLongestPause)
      fail(request.url, failure_text(answer), "Try again later.");
    log.info("The transfer failed (" + failure_text(answer) + "); it begins anew in " +
             duration_text(wait) + ".");
    std::this_thread::sleep_for(std::chrono::duration<double>(wait));
    pause = std::min(2 * pause, kLongestPause);
  }
}

// A file is whole in the cache once it has its name, which begins with a hash of the URL. Beside it
// is a record of the SHA-256 that it was fetched with, which is also its lock:
//
//   1a2b3c4d-resnet50-0676ba61.pth
//   1a2b3c4d-resnet50-0676ba61.pth.fetch
fs::path file_in_cache(const FetchRequest& request, const fs::path& folder, Log& log) {
  const std::string name = file_name_of_url(request.url);
  fs::path file = folder / (sha256_of(request.url).substr(0, kUrlDigits) + "-" + name);
  const fs::path record = file.string() + ".fetch";
  // The digits that its SHA-256 must begin with; empty: they are not known.
  const bool is_given = !request.sha256.empty();
  const std::string digits = is_given ? request.sha256 : digits_in_name(name);
  const std::string source = is_given ? request.says : "its file name";
  const auto is_in_cache = [&](const std::string& recorded) {
    if (recorded.empty() || !is_there(file)) return false;
    std::string hash;
    try {
      hash = sha256_of_file(file);
    } catch (const std::system_error&) {
    }
    const bool is_right = hash == recorded && hash.starts_with(digits);
    log.info(is_right ? "Already in the cache: " + quoted_path(file)
                      : "The file in the cache, " + quoted_path(file) + ", " +
                            (hash != recorded ? "is damaged" : "does not match " + source) +
                            ". It is downloaded again.");
    return is_right;
  };
  const std::string known = recorded_in(record);
  // Checked without the lock, which a read-only cache does not allow.
  if (is_in_cache(known)) return file;
  const Descriptor lock = locked(file, record, log);
  // Another process may have fetched it meanwhile.
  if (const std::string now = recorded_in(record); now != known && is_in_cache(now)) return file;
  DurableFile fetched = fetch(request, file, log);
  std::string hash;
  try {
    hash = sha256_of_file(fetched.temporary_path());
  } catch (const std::system_error& fault) {
    fail_to_write(file, fault.code().value());
  }
  if (!hash.starts_with(digits))
    throw Error(ErrorCode::kFailedToDownloadFiles,
                "The file from '" + request.url + "' has the SHA-256 " + hash + ", but " + source +
                    " says " + digits + ": it is damaged or a different file, and was removed. " +
                    (!request.advice.empty() ? request.advice
                     : is_given              ? "Check the URL and the hash."
                                : "If these digits are not a hash, give the full one to `kiln "
                                  "init-model --weights-sha256`."));
  // If the process is killed in between, an earlier file does not match and is not used. Written in
  // place, because the lock is on this file.
  if (::ftruncate(lock.number(), 0) != 0) fail_to_write(record, errno);
  ::lseek(lock.number(), 0, SEEK_SET);
  write_all(lock.number(), std::string(kRecordBegin) + hash + "\n", record);
  if (::fsync(lock.number()) != 0) fail_to_write(record, errno);
  fetched.commit();
  log.info("SHA-256 " + hash +
           (digits.empty() ? ", not verified: `kiln init-model --weights-sha256` does that"
                           : ", matches " + source));
  return file;
}

}  // namespace

std::string digits_in_name(const std::string& file_name) {
  const std::size_t dash = file_name.rfind('-');
  const std::size_t end = dash == file_name.npos ? dash : file_name.find('.', dash);
  if (end == file_name.npos || end - dash != kNameDigits + 1) return "";
  std::string digits = file_name.substr(dash + 1, kNameDigits);
  if (digits.find_first_not_of(kHexDigits) != digits.npos) return "";
  const bool is_number = digits.find_first_not_of("0123456789") == digits.npos;
  const bool is_date = is_number && (digits.starts_with("19") || digits.starts_with("20"));
  return is_date ? "" : digits;
}

fs::path fetch_file(const FetchRequest& request, Log& log) {
  const std::string fault = fault_of_url(request.url);
  if (!fault.empty()) fail(request.url, fault, "Check the URL.");
  const fs::path cache = user_cache_folder();
  if (cache.empty())
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "There is no cache folder for downloaded weights: set XDG_CACHE_HOME to a folder.");
  try {
    return file_in_cache(request, cache / "kiln" / "weights", log);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kFailedToWriteOutputs) throw;
    throw Error(error.code(),
                error.message() + " It is for downloaded weights; set XDG_CACHE_HOME to move it.");
  }
}

std::string resolve_weights(const std::string& weights, const std::string& sha256,
                            const std::string& network, Log& log) {
  if (names_published(weights)) {
    const PublishedWeights& file = published_weights(known_network(network), weights);
    log.info("--weights " + weights + ": " + std::string(file.file) +
             formatted(", %d MB, ", file.megabytes) +
             (weights == "timm" ? "license Apache 2.0, as timm states it"
                                : "trained on ImageNet; license not stated by torchvision"));
    FetchRequest request{.url = file.url(), .sha256 = sha256, .max_bytes = kMaxStateDictBytes};
    if (sha256.empty()) {
      request.sha256 = file.sha256;
      request.says = "Kiln's list of timm's files";
      request.advice = "Perhaps a proxy changed it: try another network, or give a file's path.";
    }
    return fetch_file(request, log).string();
  }
  const auto [file, part] = file_and_part(weights);
  if (is_url(weights))
    return fetch_file({.url = file, .sha256 = sha256, .max_bytes = kMaxStateDictBytes}, log)
               .string() +
           (part.empty() ? "" : "#" + part);
  if (sha256.empty() || !is_there(file)) return weights;
  std::string found;
  try {
    found = sha256_of_file(file);
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                std::string("The weights cannot be checked against --weights-sha256: ") +
                    fault.what() + ". Check --weights.");
  }
  if (found != sha256)
    throw Error(ErrorCode::kInvalidModelDirectory,
                "The weights file " + quoted_path(file) + " has the SHA-256 " + found +
                    ", but --weights-sha256 is " + sha256 +
                    ": it is damaged or a different file. Check both.");
  return weights;
}

}  // namespace kiln
