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
      images_(watch.images),
      next_warning_(limits.warning_seconds) {}

void StreamSilence::judge(const std::string& name) {
  if (const std::uint64_t now = watch_.received; now != std::exchange(received_, now))
    without_data_ = {};
  if (const std::uint64_t now = watch_.images; now != std::exchange(images_, now)) {
    without_image_ = {};
    next_warning_ = limits_.warning_seconds;
  }
  const double seconds = without_image_.seconds();
  const bool is_over = seconds >= limits_.deadline_seconds;
  if (!is_over && seconds < next_warning_) return;
  const StreamWatch::State state = watch_.state;
  const bool sends_data = without_data_.seconds() <= seconds / 2;
  const std::string text =
      name +
      (state == StreamWatch::State::kAbsent      ? " does not exist"
       : state == StreamWatch::State::kUnwritten ? " is a pipe without a writer"
       : sends_data                              ? " has sent data but no image"
                                                 : " has sent no data") +
      formatted(" for %.0f s", sends_data ? seconds : without_data_.seconds());
  if (is_over)
    throw Error(ErrorCode::kInvalidDataset,
                text + (sends_data ? ". Check" : ". Start") +
                    " the program that writes it, or wait longer with --collective-timeout.");
  next_warning_ += limits_.warning_seconds;
  warn_(text + "; training is waiting for it");
}

}  // namespace kiln
