#include "data/stream/byte_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

#include "base/text.h"

namespace kiln {
namespace {

constexpr std::size_t kPortion = 256 << 10;
constexpr std::size_t kFirstReserve = 1 << 20;  // the most reserved before bytes have arrived
// The interval, in milliseconds, at which to check whether to close and whether a pipe exists yet.
constexpr int kLookMs = 50;

std::string reason(int error) {
  return std::generic_category().message(error);
}

bool is_fifo(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 && S_ISFIFO(info.st_mode);
}

// Opens a pipe again for non-blocking reads: another program may read from it too and take the
// bytes that poll() has announced, and nothing could cancel a read that then blocks. The flags of
// the original descriptor, which that program may share, do not change.
int open_standard_input() {
  const int own =
      is_fifo(STDIN_FILENO) ? ::open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
  return own >= 0 ? own : STDIN_FILENO;
}

}  // namespace

ByteStream::ByteStream(std::string path, StreamWatch& watch)
    : path_(std::move(path)), watch_(watch) {
  watch_.state = StreamWatch::State::kAbsent;
  if (path_ != "-") return;
  file_ = open_standard_input();
  watch_.state = StreamWatch::State::kOpen;
}

ByteStream::~ByteStream() {
  if (file_ > STDIN_FILENO) ::close(file_);
}

// Without O_NONBLOCK, open() would wait for a writer, and nothing could cancel it.
void ByteStream::open() {
  if (file_ >= 0) return;
  while (file_ < 0) {
    if (watch_.closing) throw StreamClosed();
    file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ >= 0) break;
    if (errno != ENOENT && errno != EINTR) throw StreamFault("cannot be opened: " + reason(errno));
    if (watch_.while_waiting) watch_.while_waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(kLookMs));
  }
  is_pipe_ = is_fifo(file_);
  watch_.state = is_pipe_ ? StreamWatch::State::kUnwritten : StreamWatch::State::kOpen;
}

void ByteStream::reopen() {
  const int before = std::exchange(file_, -1);
  position_ = 0;
  has_come_ = at_end_ = false;
  open();
  ::close(before);
}

// read() returns 0 both at the end of a pipe and before its first writer. So a pipe is at its end
// only if bytes have arrived before, or if POLLHUP says that a writer has come and gone.
bool ByteStream::fill() {
  if (at_end_) return false;
  open();
  buffer_.erase(0, std::exchange(begin_, 0));
  const std::size_t kept = buffer_.size();
  while (!watch_.closing) {
    pollfd waiting{.fd = file_, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, kLookMs);
    if (ready == 0 && watch_.while_waiting) watch_.while_waiting();
    if (ready == 0 && !(is_pipe_ && has_come_)) continue;
    buffer_.resize(kept + kPortion);
    const ssize_t got = ::read(file_, buffer_.data() + kept, kPortion);
    const int error = errno;
    buffer_.resize(kept + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) {
      watch_.state = StreamWatch::State::kOpen;
      watch_.received += static_cast<std::uint64_t>(got);
      return has_come_ = true;
    }
    if (got == 0 && (!is_pipe_ || has_come_ || (waiting.revents & POLLHUP) != 0)) {
      at_end_ = true;
      return false;
    }
    if (got < 0 && error != EAGAIN && error != EINTR)
      throw StreamFault("cannot be read: " + reason(error));
  }
  throw StreamClosed();
}

std::string_view ByteStream::peek(std::size_t size) {
  while (buffer_.size() - begin_ < size && fill()) {
  }
  return std::string_view(buffer_).substr(begin_, size);
}

void ByteStream::fail_cut_off() const {
  throw StreamFault(formatted("ends after %llu bytes, in the middle of a record",
                              static_cast<unsigned long long>(position_)));
}

std::string_view ByteStream::take_some(std::size_t size) {
  if (begin_ == buffer_.size() && !fill()) return {};
  const std::string_view taken = std::string_view(buffer_).substr(begin_, size);
  begin_ += taken.size();
  position_ += taken.size();
  return taken;
}

bool ByteStream::read(std::size_t size, std::string& target) {
  target.clear();
  while (target.size() < size) {
    const std::string_view taken = take_some(size - target.size());
    if (taken.empty() && target.empty()) return false;
    if (taken.empty()) fail_cut_off();
    if (target.capacity() < target.size() + taken.size())
      target.reserve(std::min(size, std::max(kFirstReserve, 2 * target.size())));
    target += taken;
  }
  return true;
}

std::string ByteStream::take(std::size_t size) {
  std::string bytes;
  if (size > 0 && !read(size, bytes)) fail_cut_off();
  return bytes;
}

void ByteStream::skip(std::uint64_t size) {
  while (size > 0) {
    const std::string_view taken = take_some(size);
    if (taken.empty()) fail_cut_off();
    size -= taken.size();
  }
}

}  // namespace kiln
