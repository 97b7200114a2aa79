// Watches for how long a stream has sent no image while it was waited for: when to warn, and when
// it is an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/system.h"
#include "data/stream/byte_stream.h"

namespace kiln {

// Use from one thread, other than the one that reads.
class StreamSilence {
 public:
  struct Limits {
    double warning_seconds = 60, deadline_seconds = 300;
  };
  using Warn = std::function<void(const std::string&)>;

  // Starts the wait. All arguments must outlive this object.
  StreamSilence(const StreamWatch& watch, const Limits& limits, const Warn& warn);

  // Call it from time to time while waiting. Warns after every `warning_seconds` without an image,
  // even if other data arrives, since a stream may send that forever; throws Error kInvalidDataset
  // at the deadline. `name` is the name of the stream: "Training dataset '-'".
  void judge(const std::string& name);

 private:
  const StreamWatch& watch_;
  const Limits& limits_;
  const Warn& warn_;
  std::uint64_t received_, images_;
  Stopwatch without_data_, without_image_;
  double next_warning_;
};

}  // namespace kiln
