// The access log of a server: a JSON line for each request, written by a thread of its own. Neither
// a full disk nor a pipe that nobody reads delays an answer.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "base/files.h"
#include "base/log.h"
#include "tools/serve/metrics.h"

namespace kiln {

// What is logged of a request; never its image.
struct Access {
  std::string id;     // ASCII
  std::string route;  // as in the table of routes
  int status = 0;
  // Seconds: everything but the other two; the longest of an image; that of its last batch.
  double queue = 0, decode = 0, forward = 0;
  // Of a request with one image: its class, UTF-8, and the confidence in that, as JSON.
  std::string label = "null", confidence = "null";
};

// On any thread.
class AccessLog {
 public:
  // Appends to `file`; "-": standard output. Throws Error kUserError. The references must outlive
  // it; `metrics` counts the lines that are dropped. Its end writes what waits, but waits for no
  // reader.
  AccessLog(const std::string& file, Log& log, ServerMetrics& metrics);

  // Without waiting: if too many lines wait, this one is dropped.
  void add(const Access& access);

 private:
  void write_lines(const std::stop_token& stop);

  Log& log_;
  ServerMetrics& metrics_;
  const Descriptor file_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::string> waiting_;
  std::jthread writer_;  // last: it uses the others
};

}  // namespace kiln
