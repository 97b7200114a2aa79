#include "data/stream/stream_silence.h"

#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace kiln {

StreamSilence::StreamSilence(const StreamWatch& watch, const Limits& limits, const Warn& warn)
    : watch_(watch),
      limits_(limits),
      warn_(warn),
      received_(watch.received),
      next_warning_(limits.warning_seconds) {}

void StreamSilence::judge(const std::string& name) {
  if (const std::uint64_t now = watch_.received; now != std::exchange(received_, now)) {
    silence_ = {};
    next_warning_ = limits_.warning_seconds;
  }
  const double seconds = silence_.seconds();
  const bool is_over = seconds >= limits_.deadline_seconds;
  if (!is_over && seconds < next_warning_) return;
  const StreamWatch::State state = watch_.state;
  const std::string text =
      name +
      (state == StreamWatch::State::kAbsent      ? " does not exist"
       : state == StreamWatch::State::kUnwritten ? " is a pipe without a writer"
                                                 : " has sent no data") +
      formatted(" for %.0f s", seconds);
  if (is_over)
    throw Error(
        ErrorCode::kInvalidDataset,
        text + ". Start the program that writes it, or wait longer with --collective-timeout.");
  next_warning_ += limits_.warning_seconds;
  warn_(text + "; training is waiting for it");
}

}  // namespace kiln
