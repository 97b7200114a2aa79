// Where the time of training steps goes, and the timeline of a few of them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <deque>
#include <optional>

#include "base/timeline.h"
#include "record/training_record.h"

namespace kiln {

// Measures the parts of steps. On a GPU it uses events in the stream, so that the host does not
// wait. One thread.
class StepClock {
 public:
  explicit StepClock(const c10::Device& device) : device_(device) {}

  // begin() starts a part and ends the previous one; stop() ends the last part.
  void begin(double StepTimes::*part);
  void stop() { begin(nullptr); }

  // Sums over all ended parts; on a GPU, over those that it has already finished.
  StepTimes times();

  // From now on adds each part to `timeline`: to the track of steps as seen by the host and, on a
  // GPU, to the track of the device. nullptr stops this after adding all parts so far. On a GPU
  // either call waits for the device. The timeline must stay valid until the call with nullptr or
  // the end of the clock.
  void trace(Timeline* timeline);
  bool is_traced() const { return timeline_ != nullptr; }

 private:
  using Clock = Timeline::Clock;

  // The boundary between two parts: the host's time and, on a GPU, an event in its stream.
  struct Mark {
    Clock::time_point host;
    std::optional<c10::Event> device;
    double StepTimes::*part = nullptr;  // the part that begins here; nullptr: none

    double seconds_until(const Mark& later) const;
  };

  void settle();
  Mark mark_now(double StepTimes::*part) const;
  Clock::time_point time_of(const Mark& mark) const;
  void count(const Mark& begin, const Mark& end);

  c10::Device device_;
  Timeline* timeline_ = nullptr;
  std::optional<Mark> anchor_;  // a moment known on both the host's and the device's clock
  std::deque<Mark> marks_;
  StepTimes times_;
};

// Selects the steps of a process that its timeline shows: a few, after the first ones have warmed
// up memory, caches and libraries. Counts the steps over all epochs of the process. One thread.
class StepTrace {
 public:
  // Both included.
  static constexpr int kFirst = 20, kLast = 40;

  // The timeline must outlive this object.
  explicit StepTrace(Timeline& timeline) : timeline_(timeline) {}

  // Call around each step with the clock of its epoch; after_step() only if the step was made.
  void before_step(StepClock& clock);
  void after_step(StepClock& clock);

  int steps() const { return steps_; }  // made so far

 private:
  Timeline& timeline_;
  int steps_ = 0;
  Timeline::Time begin_;
};

}  // namespace kiln
