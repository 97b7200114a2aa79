// The progress of something that is fetched: on a terminal a live line, otherwise a log line every
// half minute. Use from one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/log.h"
#include "base/system.h"

namespace kiln {

class Transfer {
 public:
  // Of so many bytes; 0: unknown.
  Transfer(Log& log, std::uint64_t total) : log_(log), total_(total) {}
  void show(std::uint64_t size);       // those that have arrived
  void end(std::uint64_t size) const;  // a line of the log

 private:
  std::string text(std::uint64_t size) const;

  Log& log_;
  std::uint64_t total_;
  Stopwatch watch_;
  double last_shown_ = 0, last_logged_ = 0;  // seconds of `watch_`
};

// Throws Error kFailedToWriteOutputs if the folder has no room for so many bytes. `what` begins the
// message; `remedy`, a sentence, ends it.
void require_room(const std::filesystem::path& folder, std::uint64_t size, const std::string& what,
                  const std::string& remedy);

}  // namespace kiln
