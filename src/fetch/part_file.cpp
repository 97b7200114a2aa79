#include "fetch/part_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "base/url.h"
#include "fetch/sha256.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;

constexpr double kTellSeconds = 0.2, kNoteSeconds = 30;

std::string size_text(std::uint64_t bytes) {
  return bytes_text(static_cast<long long>(bytes));
}

}  // namespace

PartFile::PartFile(const CacheEntry& entry, const std::string& url, std::uint64_t max_bytes,
                   Log& log)
    : entry_(entry),
      url_(shown_url(url)),
      max_bytes_(max_bytes),
      log_(log),
      validator_(entry.read().validator) {
  descriptor_ =
      ::open(entry.part().c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_in_cache(entry.part(), errno);
  const off_t size = ::lseek(descriptor_, 0, SEEK_END);
  if (size > 0) size_ = static_cast<std::uint64_t>(size);
  if (validator_.empty()) truncate();
  most_bytes_ = size_;
}

PartFile::~PartFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (size_ == 0) ::unlink(entry_.part().c_str());
}

void PartFile::truncate() {
  if (::ftruncate(descriptor_, 0) != 0 || ::lseek(descriptor_, 0, SEEK_SET) != 0)
    fail_in_cache(entry_.part(), errno);
  size_ = 0;
}

void PartFile::forget() {
  truncate();
  validator_.clear();
}

void PartFile::check_size(std::uint64_t size) const {
  if (size <= max_bytes_) return;
  throw Error(ErrorCode::kFailedToDownloadFiles,
              "'" + url_ + "' cannot be downloaded: it has " +
                  (total_ > 0 ? grouped(static_cast<long long>(total_)) + " bytes, " : "") +
                  "more than the " + size_text(max_bytes_) +
                  " allowed for weights. Check the URL.");
}

void PartFile::check_space(std::uint64_t more) const {
  std::error_code fault;
  const fs::path folder = entry_.file().parent_path();
  const fs::space_info space = fs::space(folder, fault);
  if (fault || space.available >= more) return;
  throw Error(ErrorCode::kFailedToWriteOutputs,
              "'" + url_ + "' cannot be downloaded: it needs " + size_text(more) + " in " +
                  quoted_path(folder) + ", where " + size_text(space.available) +
                  " are free. Free some space there, or set XDG_CACHE_HOME to another folder.");
}

void PartFile::begin(const DownloadHead& head) {
  if (!head.shows_its_end)
    throw Error(ErrorCode::kFailedToDownloadFiles,
                "'" + url_ +
                    "' cannot be downloaded: the server does not report the file's length, so a "
                    "truncated file would go unnoticed. Download it yourself and give its path.");
  total_ = head.total.value_or(0);
  check_size(total_);
  check_space(total_ > head.from ? total_ - head.from : 0);
  const std::string whole = total_ > 0 ? " (" + size_text(total_) + ")" : "";
  if (head.from > 0) {
    log_.info("Resuming '" + url_ + "'" + whole + " after " + size_text(head.from));
  } else {
    if (size_ > 0) log_.info("The server cannot resume this download: it starts over.");
    // In this order, because the part and the recorded validator must never belong to different
    // versions of the file.
    entry_.write({});
    truncate();
    validator_ = head.validator;
    entry_.write({.validator = validator_});
    log_.info("Downloading '" + url_ + "'" + whole + " to " +
              quoted_path(entry_.file().parent_path()));
  }
  num_fetched_ = 0;
  watch_.lap();
  last_told_ = last_noted_ = 0;
}

void PartFile::add(std::string_view bytes) {
  check_size(size_ + bytes.size());
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_in_cache(entry_.part(), errno);
    const auto count = static_cast<std::size_t>(written);
    bytes.remove_prefix(count);
    size_ += count;
    num_fetched_ += count;
  }
  most_bytes_ = std::max(most_bytes_, size_);
}

std::string PartFile::progress_text() const {
  const double seconds = watch_.seconds();
  const double rate = seconds > 0 ? static_cast<double>(num_fetched_) / seconds : 0;
  std::string text = "Fetched " + size_text(size_);
  if (total_ > 0) text += " of " + size_text(total_);
  text += ", " + size_text(static_cast<std::uint64_t>(rate)) + "/s";
  if (total_ > size_ && rate > 0)
    text += ", " + duration_text(static_cast<double>(total_ - size_) / rate) + " left";
  return text;
}

void PartFile::look() {
  const double now = watch_.seconds();
  if (now - last_told_ >= kTellSeconds) {
    log_.progress(progress_text());
    last_told_ = now;
  }
  if (now - last_noted_ >= kNoteSeconds) {
    log_.detail(progress_text());
    last_noted_ = now;
  }
}

std::string PartFile::finish() {
  const double seconds = watch_.seconds();
  if (size_ == 0)
    throw Error(ErrorCode::kFailedToDownloadFiles,
                "'" + url_ + "' cannot be used: it is an empty file. Check the URL.");
  if (::fsync(descriptor_) != 0) fail_in_cache(entry_.part(), errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail_in_cache(entry_.part(), errno);
  log_.info("Fetched " + size_text(num_fetched_) + " in " + duration_text(seconds));
  try {
    return sha256_of_file(entry_.part());
  } catch (const std::system_error& fault) {
    fail_in_cache(entry_.part(), fault.code().value());
  }
}

void keep(const CacheEntry& entry, const std::string& sha256) {
  // If the process is killed in between, the file is missing or does not match its recorded hash,
  // so it is not used.
  entry.write({.sha256 = sha256});
  if (::rename(entry.part().c_str(), entry.file().c_str()) != 0) fail_in_cache(entry.file(), errno);
  sync_folder(entry.file().parent_path());
}

}  // namespace kiln
