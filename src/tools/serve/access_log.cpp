#include "tools/serve/access_log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/names.h"
#include "base/text.h"
#include "store/model_directory.h"

namespace kiln {
namespace {

constexpr std::size_t kMostWaiting = 10'000;  // lines
constexpr int kWaitMs = 100;                  // for a pipe's reader

Descriptor opened(const std::string& file) {
  // A pipe without a reader is refused instead of waiting for one.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  const int file_number =
      file == "-" ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : ::open(file.c_str(), kFlags, 0640);
  if (file_number >= 0) return Descriptor(file_number);
  throw Error(ErrorCode::kUserError, "--access-log " + quoted_path(file) + " cannot be written: " +
                                         std::generic_category().message(errno) +
                                         ". Give a file, or - for standard output.");
}

std::string line_of(const Access& access) {
  constexpr std::size_t kUpToMilliseconds = 23;
  const std::string time =
      time_stamp(std::chrono::system_clock::now()).substr(0, kUpToMilliseconds) + "Z";
  return formatted(
      "{\"time\": \"%s\", \"id\": %s, \"route\": %s, \"status\": %d, \"queue_ms\": %.3f, "
      "\"decode_ms\": %.3f, \"forward_ms\": %.3f, \"class\": %s, \"confidence\": %s}\n",
      time.c_str(), quote_json(access.id).c_str(), quote_json(as_utf8(access.route)).c_str(),
      access.status, access.queue * 1e3, access.decode * 1e3, access.forward * 1e3,
      access.label.c_str(), access.confidence.c_str());
}

}  // namespace

AccessLog::AccessLog(const std::string& file, Log& log, ServerMetrics& metrics)
    : log_(log),
      metrics_(metrics),
      file_(opened(file)),
      writer_([this](const std::stop_token& stop) { write_lines(stop); }) {}

void AccessLog::add(const Access& access) {
  std::string line = line_of(access);
  const std::scoped_lock lock(mutex_);
  if (waiting_.size() == kMostWaiting) return metrics_.count("kiln_access_log_dropped_total");
  waiting_.push_back(std::move(line));
  changed_.notify_all();
}

void AccessLog::write_lines(const std::stop_token& stop) {
  bool was_told = false;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!changed_.wait(lock, stop, [this] { return !waiting_.empty(); })) return;
    lock.unlock();
    pollfd out{file_.number(), POLLOUT, 0};
    const bool is_ready = ::poll(&out, 1, kWaitMs) > 0;
    lock.lock();
    if (!is_ready && stop.stop_requested()) return;
    if (!is_ready) continue;
    const std::string line = std::exchange(waiting_.front(), {});
    waiting_.pop_front();
    lock.unlock();
    if (::write(file_.number(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      metrics_.count("kiln_access_log_dropped_total");
      if (!std::exchange(was_told, true))
        log_.warning("A line of --access-log was lost; /metrics counts them. " +
                     std::generic_category().message(errno) + ".");
    }
    lock.lock();
  }
}

}  // namespace kiln
