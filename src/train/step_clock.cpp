#include "train/step_clock.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <chrono>
#include <deque>
#include <optional>

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// A moment of the host, or of the device's stream.
struct Mark {
  Clock::time_point host;
  std::optional<c10::Event> device;
  double StepTimes::*part = nullptr;  // that begins here; nullptr: none does

  bool reached() const { return !device || device->query(); }
  double seconds_until(const Mark& later) const {
    if (device) return device->elapsedTime(*later.device) / 1000;
    return std::chrono::duration<double>(later.host - host).count();
  }
};

}  // namespace

class StepClock::Marks {
 public:
  explicit Marks(const c10::Device& device) : device_(device) {}

  void add(double StepTimes::*part) {
    Mark mark{Clock::now(), std::nullopt, part};
    if (device_.is_cuda()) {
      mark.device.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
      mark.device->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    marks_.push_back(std::move(mark));
    settle();
  }

  // Counts what lies between marks that have been reached, and forgets them.
  void settle() {
    while (marks_.size() > 1 && marks_[1].reached()) {
      if (marks_[0].part != nullptr) times_.*marks_[0].part += marks_[0].seconds_until(marks_[1]);
      marks_.pop_front();
    }
  }

  const StepTimes& times() const { return times_; }

 private:
  c10::Device device_;
  std::deque<Mark> marks_;
  StepTimes times_;
};

StepClock::StepClock(const c10::Device& device) : marks_(std::make_unique<Marks>(device)) {}
StepClock::~StepClock() = default;

void StepClock::begin(double StepTimes::*part) {
  marks_->add(part);
}
void StepClock::stop() {
  marks_->add(nullptr);
}

StepTimes StepClock::times() {
  marks_->settle();
  return marks_->times();
}

}  // namespace kiln
