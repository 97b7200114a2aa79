#include "train/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace kiln {
namespace {

struct PartName {
  double StepTimes::*part;
  const char* name;
  bool computes;  // on the device
};
constexpr PartName kPartNames[] = {{&StepTimes::data_wait, "wait for images", false},
                                   {&StepTimes::forward, "forward", true},
                                   {&StepTimes::backward, "backward", true},
                                   {&StepTimes::communication, "wait for all-reduce", false},
                                   {&StepTimes::optimizer, "optimizer", true}};

const PartName& name_of(double StepTimes::*part) {
  return *std::ranges::find(kPartNames, part, &PartName::part);
}

}  // namespace

void StepClock::begin(double StepTimes::*part) {
  Mark mark = mark_now(part);
  if (timeline_ != nullptr && !marks_.empty() && marks_.back().part != nullptr)
    timeline_->add(Timeline::kSteps, name_of(marks_.back().part).name, marks_.back().host,
                   mark.host);
  marks_.push_back(std::move(mark));
  settle();
}

StepTimes StepClock::times() {
  settle();
  return times_;
}

void StepClock::trace(Timeline* timeline) {
  Mark now = mark_now(nullptr);
  if (now.device) {
    now.device->synchronize();
    now.host = Clock::now();
  }
  settle();  // the parts so far belong to the previous timeline
  timeline_ = timeline;
  if (timeline != nullptr) anchor_ = std::move(now);
}

// Adds up the parts between marks that the device has reached, and drops those marks.
void StepClock::settle() {
  while (marks_.size() > 1 && (!marks_[1].device || marks_[1].device->query())) {
    if (marks_[0].part != nullptr) count(marks_[0], marks_[1]);
    marks_.pop_front();
  }
}

double StepClock::Mark::seconds_until(const Mark& later) const {
  if (device) return device->elapsedTime(*later.device) / 1000;
  return std::chrono::duration<double>(later.host - host).count();
}

StepClock::Mark StepClock::mark_now(double StepTimes::*part) const {
  Mark mark{Clock::now(), std::nullopt, part};
  if (device_.is_cuda()) {
    mark.device.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    mark.device->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  }
  return mark;
}

// When the device reached the mark, on the host's clock.
StepClock::Clock::time_point StepClock::time_of(const Mark& mark) const {
  if (!mark.device) return mark.host;
  const std::chrono::duration<double> since(anchor_->seconds_until(mark));
  return anchor_->host + std::chrono::duration_cast<Clock::duration>(since);
}

void StepClock::count(const Mark& begin, const Mark& end) {
  times_.*begin.part += begin.seconds_until(end);
  if (timeline_ == nullptr) return;
  const PartName& row = name_of(begin.part);
  // On a CPU the host itself adds the all-reduces to their track. On a GPU it only knows that the
  // stream waits for them.
  const bool waits_for_sums = begin.device && begin.part == &StepTimes::communication;
  if (!row.computes && !waits_for_sums) return;
  timeline_->add(row.computes ? Timeline::kDevice : Timeline::kSums, row.name, time_of(begin),
                 time_of(end));
}

void StepTrace::before_step(StepClock& clock) {
  const int step = steps_ + 1;
  if (step < kFirst || step > kLast) return;
  if (step == kFirst) timeline_.begin();
  if (!clock.is_traced()) clock.trace(&timeline_);
  begin_ = Timeline::Clock::now();
}

void StepTrace::after_step(StepClock& clock) {
  ++steps_;
  if (steps_ < kFirst || steps_ > kLast) return;
  timeline_.add(Timeline::kSteps, "step " + std::to_string(steps_), begin_, Timeline::Clock::now());
  if (steps_ < kLast) return;
  clock.trace(nullptr);
  timeline_.end();
}

}  // namespace kiln
