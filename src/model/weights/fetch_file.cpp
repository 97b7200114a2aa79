#include "model/weights/fetch_file.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/http.h"
#include "base/system.h"
#include "base/text.h"
#include "base/url.h"
#include "model/catalogue.h"
#include "store/state_dict_file.h"

namespace kiln {
namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    if (context_ == nullptr || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw std::bad_alloc();
  }

  void add(std::string_view bytes) {
    if (EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) != 1) throw std::bad_alloc();
  }

  std::string digits() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
    unsigned size = 0;
    if (EVP_DigestFinal_ex(context_.get(), hash.data(), &size) != 1) throw std::bad_alloc();
    std::string text;
    for (unsigned i = 0; i < size; ++i) {
      text += kDigits[hash.at(i) >> 4];
      text += kDigits[hash.at(i) & 15];
    }
    return text;
  }

 private:
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context_;
};

}  // namespace

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.digits();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  Sha256 hash;
  read_in_pieces(path, [&](std::string_view piece) { hash.add(piece); });
  return hash.digits();
}

namespace {

namespace fs = std::filesystem;

constexpr int kMaxRedirects = 10, kMaxAttempts = 4;
constexpr double kFirstPause = 0.5, kLongestPause = 60;
constexpr double kTellSeconds = 0.2, kNoteSeconds = 30;
constexpr auto kLookAgain = std::chrono::milliseconds(100);
constexpr std::size_t kNameDigits = 8, kUrlDigits = 8, kSha256Digits = 64;
constexpr std::string_view kRecordBegin = "kiln-fetch-1\nsha256 ";

std::string size_text(std::uint64_t bytes) {
  return bytes_text(static_cast<long long>(bytes));
}

[[noreturn]] void fail(const std::string& url, const std::string& reason,
                       const std::string& advice) {
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "'" + url + "' cannot be downloaded: " + reason + ". " + advice +
                  " Or download it elsewhere and give the file, or leave --weights out.");
}

fs::path cache_folder() {
  const fs::path cache = user_cache_folder();
  if (!cache.empty()) return cache / "kiln" / "weights";
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "There is no cache folder for downloaded weights: set XDG_CACHE_HOME to a folder.");
}

// The place of one URL's file in the cache, and a record of the SHA-256 that it was fetched with.
// The number is a hash of the URL.
//
//   1a2b3c4d-resnet50-0676ba61.pth
//   1a2b3c4d-resnet50-0676ba61.pth.fetch
class CacheEntry {
 public:
  CacheEntry(const fs::path& folder, const std::string& url)
      : file_(folder / (sha256_of(url).substr(0, kUrlDigits) + "-" + file_name_of_url(url))),
        record_(file_.string() + ".fetch") {}

  const fs::path& file() const { return file_; }

  // The recorded hash; empty if there is none, or if the record is damaged.
  std::string recorded() const try {
    const std::string text = read_file(record_, kRecordBegin.size() + kSha256Digits + 1);
    if (!text.starts_with(kRecordBegin) || !text.ends_with('\n')) return "";
    const std::string hash = text.substr(kRecordBegin.size(), kSha256Digits);
    const bool is_hash =
        hash.size() == kSha256Digits && hash.find_first_not_of("0123456789abcdef") == hash.npos;
    return is_hash ? hash : "";
  } catch (const std::exception&) {
    return "";
  }

  // Creates the folder, waits until no other process is fetching this file, and removes what
  // killed ones left. On file systems without locks, goes on without one.
  void lock(Log& log) {
    make_folders(file_.parent_path());
    descriptor_ = Descriptor(
        ::open(record_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
    if (descriptor_.number() < 0) fail_to_write(record_, errno);
    for (bool is_told = false; ::flock(descriptor_.number(), LOCK_EX | LOCK_NB) != 0;
         is_told = true) {
      if (errno != EWOULDBLOCK && errno != EINTR) return;
      if (!is_told) log.info("Waiting for another process that is downloading the same file.");
      std::this_thread::sleep_for(kLookAgain);
    }
    remove_leftovers_of(file_);
  }

  // Writes in place, because the lock is on this file.
  void record(const std::string& hash) const {
    const std::string text = std::string(kRecordBegin) + hash + "\n";
    if (::ftruncate(descriptor_.number(), 0) != 0) fail_to_write(record_, errno);
    ::lseek(descriptor_.number(), 0, SEEK_SET);
    write_all(descriptor_.number(), text, record_);
    if (::fsync(descriptor_.number()) != 0) fail_to_write(record_, errno);
  }

 private:
  fs::path file_, record_;
  Descriptor descriptor_;  // of the record, on which the lock is held
};

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

// True if the cache has the file, undamaged and with the expected hash. Logs the result, except for
// a missing file.
bool is_in_cache(const CacheEntry& entry, const Expected& expected, Log& log) {
  const std::string recorded = entry.recorded();
  if (recorded.empty() || !is_there(entry.file())) return false;
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

// Takes what arrives of the file, and shows progress: on a terminal in a live line, otherwise in a
// log line every half minute.
class Arrival {
 public:
  Arrival(const FetchRequest& request, const fs::path& file, Log& log)
      : request_(request), path_(file), log_(log) {}

  void take(const HttpBody& body, std::string_view bytes) {
    if (!file_) begin(body);
    size_ += bytes.size();
    check_size(size_);
    if (!bytes.empty()) file_->write(bytes);
    const double now = watch_.seconds();
    if (now - last_told_ >= kTellSeconds) {
      log_.progress(progress_text());
      last_told_ = now;
    }
    if (now - last_noted_ >= kNoteSeconds) {
      log_.milestone(progress_text());
      last_noted_ = now;
    }
  }

  // Syncs the file, which still has a temporary name, and returns its SHA-256.
  std::string finish() {
    const double seconds = watch_.seconds();
    if (size_ == 0)
      throw Error(ErrorCode::kFailedToDownloadFiles,
                  "'" + request_.url + "' cannot be used: it is an empty file. Check the URL.");
    file_->finish();
    log_.info("Fetched " + size_text(size_) + " in " + duration_text(seconds));
    try {
      return sha256_of_file(file_->temporary_path());
    } catch (const std::system_error& fault) {
      fail_to_write(path_, fault.code().value());
    }
  }

  void commit() { file_->commit(); }

 private:
  void begin(const HttpBody& body) {
    if (!body.shows_its_end)
      fail(request_.url,
           "the server does not report the file's length, so a truncated file would go unnoticed",
           "Download it yourself and give its path.");
    total_ = body.size.value_or(0);
    check_size(total_);
    check_space();
    file_.emplace(path_);
    log_.info("Downloading '" + request_.url + "'" +
              (total_ > 0 ? " (" + size_text(total_) + ")" : "") + " to " +
              quoted_path(path_.parent_path()));
    watch_.lap();
  }

  void check_size(std::uint64_t size) const {
    if (size <= request_.max_bytes) return;
    fail(request_.url,
         "it has " + (total_ > 0 ? grouped(static_cast<long long>(total_)) + " bytes, " : "") +
             "more than the " + size_text(request_.max_bytes) + " allowed for weights",
         "Check the URL.");
  }

  void check_space() const {
    std::error_code fault;
    const fs::space_info space = fs::space(path_.parent_path(), fault);
    if (fault || space.available >= total_) return;
    throw Error(ErrorCode::kFailedToWriteOutputs,
                "'" + request_.url + "' cannot be downloaded: it needs " + size_text(total_) +
                    " in " + quoted_path(path_.parent_path()) + ", where " +
                    size_text(space.available) + " are free. Free some space there.");
  }

  std::string progress_text() const {
    const double seconds = watch_.seconds();
    const double rate = seconds > 0 ? static_cast<double>(size_) / seconds : 0;
    std::string text = "Fetched " + size_text(size_);
    if (total_ > 0) text += " of " + size_text(total_);
    text += ", " + size_text(static_cast<std::uint64_t>(rate)) + "/s";
    if (total_ > size_ && rate > 0)
      text += ", " + duration_text(static_cast<double>(total_ - size_) / rate) + " left";
    return text;
  }

  const FetchRequest& request_;
  const fs::path path_;
  Log& log_;
  std::optional<DurableFile> file_;
  std::uint64_t size_ = 0, total_ = 0;  // a total of 0: unknown
  Stopwatch watch_;
  double last_told_ = 0, last_noted_ = 0;  // seconds of `watch_`
};

void check_redirect(const std::string& first, const std::string& from, const std::string& to) {
  std::string fault = fault_of_url(to);
  if (fault.empty() && is_plain_http(to) && !is_plain_http(from))
    fault = "http:// is not encrypted";
  if (!fault.empty())
    fail(first, "it redirects to '" + to + "', which is not followed (" + fault + ")",
         "Give the URL of the file itself.");
}

// Makes one attempt, following redirects.
HttpAnswer attempt(HttpClient& client, const FetchRequest& request, Arrival& arrival) {
  HttpCall call{
      .url = request.url,
      .receive = [&](const HttpBody& body, std::string_view bytes) { arrival.take(body, bytes); },
      .timeout_s = 0,
      .stall_s = request.stall_s};
  for (int num_redirects = 0;;) {
    call.use_proxy = !is_plain_http(call.url);  // http:// stays on this machine
    HttpAnswer answer = client.send(call);
    if (answer.location.empty()) return answer;
    if (++num_redirects > kMaxRedirects)
      fail(request.url, "it goes through more than " + std::to_string(kMaxRedirects) + " redirects",
           "Check the URL.");
    check_redirect(request.url, call.url, answer.location);
    call.url = answer.location;
  }
}

// Fetches the file whole, in a few attempts.
void fetch(const FetchRequest& request, std::optional<Arrival>& arrival, const fs::path& file,
           Log& log) {
  HttpClient client;
  double pause = kFirstPause;
  for (int num_attempts = 1;; ++num_attempts) {
    arrival.emplace(request, file, log);
    const HttpAnswer answer = attempt(client, request, *arrival);
    if (answer.status == 200) return;
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

void check_hash(const FetchRequest& request, const Expected& expected, const std::string& hash) {
  if (expected.allows(hash)) return;
  const std::string advice = request.sha256.empty()
                                 ? "If these digits are not a hash, give the full one to `kiln "
                                   "init-model --weights-sha256`."
                                 : "Check the URL and the hash.";
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "The file from '" + request.url + "' has the SHA-256 " + hash + ", but " +
                  expected.source + " says " + expected.digits +
                  ": it is damaged or a different file, and was removed. " + advice);
}

fs::path file_in_cache(const FetchRequest& request, const fs::path& folder, Log& log) {
  const Expected expected = expected_of(request);
  CacheEntry entry(folder, request.url);
  const std::string known = entry.recorded();
  // Checked without the lock, which a read-only cache does not allow.
  if (is_in_cache(entry, expected, log)) return entry.file();
  entry.lock(log);
  const bool has_changed = entry.recorded() != known;  // by another process
  if (has_changed && is_in_cache(entry, expected, log)) return entry.file();
  std::optional<Arrival> arrival;
  fetch(request, arrival, entry.file(), log);
  const std::string hash = arrival->finish();
  check_hash(request, expected, hash);
  // If the process is killed in between, an earlier file does not match and is not used.
  entry.record(hash);
  arrival->commit();
  log.info("SHA-256 " + hash +
           (expected.digits.empty() ? ", not verified: `kiln init-model --weights-sha256` does that"
                                    : ", matches " + expected.source));
  return entry.file();
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
  const fs::path folder = cache_folder();
  try {
    return file_in_cache(request, folder, log);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kFailedToWriteOutputs) throw;
    throw Error(error.code(),
                error.message() + " It is for downloaded weights; set XDG_CACHE_HOME to move it.");
  }
}

static void check_file(const std::string& path, const std::string& sha256) {
  std::string found;
  try {
    found = sha256_of_file(path);
  } catch (const std::system_error& fault) {
    throw Error(ErrorCode::kInvalidModelDirectory,
                std::string("The weights cannot be checked against --weights-sha256: ") +
                    fault.what() + ". Check --weights.");
  }
  if (found == sha256) return;
  throw Error(ErrorCode::kInvalidModelDirectory,
              "The weights file " + quoted_path(path) + " has the SHA-256 " + found +
                  ", but --weights-sha256 is " + sha256 +
                  ": it is damaged or a different file. Check both.");
}

std::string resolve_weights(const std::string& weights, const std::string& sha256,
                            const std::string& network, Log& log) {
  if (names_torchvision(weights)) {
    const PublishedWeights& file = torchvisions_weights(known_network(network), weights);
    log.info("--weights " + weights + ": " + std::string(file.file) +
             formatted(", %d MB, trained on ImageNet; license not stated by torchvision",
                       file.megabytes));
    return resolve_weights(file.url(), sha256, network, log);
  }
  const auto [file, part] = file_and_part(weights);
  if (is_url(weights))
    return fetch_file({.url = file, .sha256 = sha256, .max_bytes = kMaxStateDictBytes}, log)
               .string() +
           (part.empty() ? "" : "#" + part);
  if (!sha256.empty() && is_there(file)) check_file(file, sha256);
  return weights;
}

}  // namespace kiln
