// For how long a stream has sent no image while it was waited for: who hears of it, and when it is
// an error.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/system.h"
#include "data/stream/byte_stream.h"

namespace kiln {

// One thread, which does not read.
class StreamSilence {
 public:
  struct Limits {
    double warning_seconds = 60, deadline_seconds = 300;
  };
  using Warn = std::function<void(const std::string&)>;

  // Waiting begins. All must outlive it.
  StreamSilence(const StreamWatch& watch, const Limits& limits, const Warn& warn);

  // From time to time while it is waited for. Warns after every `warning_seconds` without an image,
  // whatever else comes, since a stream may send other data without end; throws Error
  // kInvalidDataset at the deadline. `name` is the stream's: "Training dataset '-'".
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
