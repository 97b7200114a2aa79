#include "fetch/cache_entry.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/system.h"
#include "base/url.h"
#include "fetch/sha256.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

// The record file: a line with the magic, then a line "validator …" or "sha256 …", or neither.
constexpr std::string_view kMagic = "kiln-fetch-1\n", kValidator = "validator ",
                           kSha256 = "sha256 ";
constexpr std::uint64_t kMaxRecordBytes = 4096;
constexpr std::size_t kUrlDigits = 8, kSha256Digits = 64;
constexpr auto kLookAgain = std::chrono::milliseconds(100);

bool is_hash(std::string_view text) {
  return text.size() == kSha256Digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

}  // namespace

fs::path weights_cache_folder() {
  const fs::path cache = user_cache_folder();
  if (!cache.empty()) return cache / "kiln" / "weights";
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "There is no cache folder for downloaded weights: set XDG_CACHE_HOME to a folder.");
}

void fail_in_cache(const fs::path& path, int error) {
  throw Error(
      ErrorCode::kFailedToWriteOutputs,
      quoted_path(path) +
          ", in the cache of downloaded weights, cannot be written: " + system_words(error) + ". " +
          (error == ENOSPC || error == EDQUOT ? "Free some space there" : "Make it writable") +
          ", or set XDG_CACHE_HOME to another folder.");
}

CacheEntry::CacheEntry(const fs::path& folder, const std::string& url)
    : file_(folder / (sha256_of(url).substr(0, kUrlDigits) + "-" + file_name_of_url(url))),
      record_file_(file_.string() + ".fetch") {}

CacheEntry::~CacheEntry() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

CacheEntry::Record CacheEntry::read() const {
  std::string text;
  try {
    text = read_file(record_file_, kMaxRecordBytes);
  } catch (const std::exception&) {
    return {};
  }
  if (!text.starts_with(kMagic) || !text.ends_with('\n')) return {};
  const std::string line =
      text.substr(kMagic.size(), text.find('\n', kMagic.size()) - kMagic.size());
  if (line.starts_with(kValidator)) return {.validator = line.substr(kValidator.size())};
  const std::string hash = line.starts_with(kSha256) ? line.substr(kSha256.size()) : "";
  return {.sha256 = is_hash(hash) ? hash : ""};
}

void CacheEntry::lock(Log& log) {
  try {
    make_folders(file_.parent_path());
  } catch (const Error& error) {
    throw Error(error.code(),
                error.message() + " It is for downloaded weights; set XDG_CACHE_HOME to move it.");
  }
  descriptor_ =
      ::open(record_file_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_in_cache(record_file_, errno);
  for (bool is_told = false;
       ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;) {
    if (!is_told) log.info("Waiting for another process that is downloading the same file.");
    is_told = true;
    std::this_thread::sleep_for(kLookAgain);
  }
}

// Writes in place, because the lock is on this file. read() ignores a partly written record.
void CacheEntry::write(const Record& record) const {
  std::string text(kMagic);
  if (!record.validator.empty()) text += std::string(kValidator) + record.validator + "\n";
  if (!record.sha256.empty()) text += std::string(kSha256) + record.sha256 + "\n";
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0)
    fail_in_cache(record_file_, errno);
  const ssize_t written = ::write(descriptor_, text.data(), text.size());
  if (written < 0 || ::fsync(descriptor_) != 0) fail_in_cache(record_file_, errno);
  if (static_cast<std::size_t>(written) != text.size()) fail_in_cache(record_file_, ENOSPC);
}

}  // namespace kiln
