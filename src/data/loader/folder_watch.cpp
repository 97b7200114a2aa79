#include "data/loader/folder_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "base/system.h"
#include "base/text.h"
#include "data/dataset/image_bytes.h"

namespace kiln {
namespace {

// The storage may come back between a failed read and the look at the root, so the read is
// repeated.
constexpr int kAttempts = 3;
constexpr auto kBetweenQuestions = std::chrono::milliseconds(50);

// The errors that mean that the storage is at fault, not the file. ENOENT and ENOTDIR are among
// them because the root existed when the run began.
constexpr std::array kOutages = {
    EIO,       ESTALE, ENOTCONN,     EHOSTDOWN,  EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, ECONNABORTED,
    EREMOTEIO, ENODEV, ECONNREFUSED, ECONNRESET, ESHUTDOWN,    ENXIO,       ENOTDIR,   ENOENT};

bool is_outage(int error) {
  return std::find(kOutages.begin(), kOutages.end(), error) != kOutages.end();
}

bool archive_answers(const OpenFile& file) {
  char byte = 0;
  try {
    file.read_at(0, &byte, 1);
    return true;
  } catch (const std::system_error& fault) {
    return !is_outage(fault.code().value());
  }
}

// Opens the folder, since a file system may answer stat() from its cache.
bool folder_answers(const std::filesystem::path& root) {
  const int descriptor =
      ::open(root.empty() ? "." : root.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return !is_outage(errno);
  struct stat info {};
  const bool good = ::fstat(descriptor, &info) == 0 || !is_outage(errno);
  ::close(descriptor);
  return good;
}

double seconds(std::chrono::duration<double> time) {
  return time.count();
}

}  // namespace

FolderWatch::Clock::duration FolderWatch::read(const Dataset& set, std::size_t i,
                                               std::string& buffer,
                                               const std::atomic<bool>& closing) {
  for (int attempt = 1;; ++attempt) {
    const Clock::time_point begin = Clock::now();
    try {
      read_image_bytes(set, i, buffer);
    } catch (const ImageFault&) {
      if (attempt == kAttempts || !answers(set, i, closing)) throw;
      continue;
    }
    const Clock::duration took = Clock::now() - begin;
    if (state_ == State::kGivenUp) answers(set, i, closing);
    return took;
  }
}

// Waits until the storage responds, according to a look that began after the call. False if the
// wait has reached its limit. Throws ReadCutShort.
bool FolderWatch::answers(const Dataset& set, std::size_t i, const std::atomic<bool>& closing) {
  std::unique_lock lock(mutex_);
  const std::size_t looks_before = looks_begun_;
  for (;;) {
    const bool is_due = Clock::now() >= next_look_;
    if (state_ == State::kGivenUp && !is_due) return false;
    if (is_due && looks_begun_ == looks_done_) look(set, i, lock);
    if (looks_done_ > looks_before && state_ != State::kAwaited) return state_ == State::kAnswers;
    if (closing || stop_signal() != 0) throw ReadCutShort();
    looked_.wait_for(lock, kBetweenQuestions);
  }
}

void FolderWatch::look(const Dataset& set, std::size_t i, std::unique_lock<std::mutex>& lock) {
  ++looks_begun_;
  lock.unlock();
  const ArchiveMember* member = set.samples.member(i);
  const bool answered = member != nullptr ? archive_answers(set.archives[member->archive].file)
                                          : folder_answers(root_);
  lock.lock();
  looks_done_ = looks_begun_;
  learn(answered);
  looked_.notify_all();
}

void FolderWatch::learn(bool answered) {
  const Clock::time_point now = Clock::now();
  next_look_ = answered ? now : now + limits_.between_looks;
  const std::string who = "data folder '" + root_.string() + "'";
  if (answered) {
    if (state_ != State::kAnswers && warn_)
      warn_(who + formatted(" is responding again after %.0f s", seconds(now - outage_began_)));
    state_ = State::kAnswers;
  } else if (state_ == State::kAnswers) {
    state_ = State::kAwaited;
    outage_began_ = now;
    if (warn_)
      warn_(who + formatted(" is not responding: waiting up to %.0f s", seconds(limits_.wait)));
  } else if (state_ == State::kAwaited && now - outage_began_ >= limits_.wait) {
    state_ = State::kGivenUp;
    if (warn_)
      warn_(who + formatted(" did not respond for %.0f s: images that cannot be read count as bad",
                            seconds(limits_.wait)));
  }
}

}  // namespace kiln
