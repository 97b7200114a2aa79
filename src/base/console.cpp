#include "base/console.h"

#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>

#include "base/system.h"
#include "base/text.h"

namespace kiln {
namespace {

constexpr double kPatienceSeconds = 1;

// Whether a few bytes can be written, or writing fails at once.
bool is_ready(int descriptor, double patience) {
  const int milliseconds = static_cast<int>(std::ceil(1e3 * std::max(0.0, patience)));
  pollfd wait{descriptor, POLLOUT, 0};
  return ::poll(&wait, 1, milliseconds) > 0;
}

}  // namespace

// When poll() says so, a pipe takes at least PIPE_BUF bytes without blocking, but a terminal
// perhaps only one.
bool Console::put(std::string_view text) {
  const int descriptor = ::fileno(stream_);
  const std::size_t most = ::isatty(descriptor) == 1 ? 1 : PIPE_BUF;
  const Stopwatch watch;
  while (!text.empty()) {
    if (!is_ready(descriptor, is_stuck_ ? 0 : kPatienceSeconds - watch.seconds())) break;
    const ssize_t count = ::write(descriptor, text.data(), std::min(most, text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno != EAGAIN) return true;  // closed, or a full disk: nobody to wait for
    if (count < 0) break;
    text.remove_prefix(static_cast<std::size_t>(count));
    is_cut_ = !text.empty();
  }
  is_stuck_ = !text.empty();
  return !is_stuck_;
}

bool Console::tell_left_out() {
  const long long untold = num_left_out_ - num_told_;
  if (untold == 0) return true;
  if (!put(formatted("%s[%s %s left out here, because nobody read them]\n", is_cut_ ? "\n" : "",
                     grouped(untold).c_str(), untold == 1 ? "line was" : "lines were")))
    return false;
  num_told_ = num_left_out_;
  return true;
}

void Console::write(std::string_view lines) {
  if (may_hold_) {
    std::fwrite(lines.data(), 1, lines.size(), stream_);
    std::fflush(stream_);
  } else if (!tell_left_out() || !put(lines)) {
    num_left_out_ += std::count(lines.begin(), lines.end(), '\n');
  }
}

void Console::draw(std::string_view live_line) {
  if (may_hold_) {
    std::fwrite(live_line.data(), 1, live_line.size(), stream_);
    std::fflush(stream_);
  } else if (tell_left_out()) {
    put(live_line);
  }
}

void Console::end() {
  if (!may_hold_) tell_left_out();
}

}  // namespace kiln
