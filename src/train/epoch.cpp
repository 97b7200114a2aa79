#include "train/epoch.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <chrono>
#include <deque>
#include <optional>

#include "train/schedule.h"

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

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

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

TrainEpoch::TrainEpoch(TrainState& state, BatchLoader& loader, DeviceUploader& uploader,
                       const EpochPlan& plan)
    : state_(state),
      loader_(loader),
      uploader_(uploader),
      plan_(plan),
      step_(state, plan.step),
      clock_(uploader.device()),
      before_(state.epoch.spent),
      communication_before_(state.gradients.communication()),
      begin_(Clock::now()),
      measured_(begin_) {
  state_.model->train(true);
  if (state_.epoch.steps > 0) learning_rate_ = rate_after(state_.epoch.steps - 1);
}

double TrainEpoch::rate_after(int steps) const {
  return rate(plan_.schedule,
              std::int64_t{plan_.epoch - 1} * plan_.schedule.steps_per_epoch + steps);
}

bool TrainEpoch::step() {
  const double next_rate = rate_after(state_.epoch.steps);
  if (!step_.run(*this, next_rate)) return false;
  learning_rate_ = next_rate;
  return true;
}

std::optional<DeviceBatch> TrainEpoch::next() {
  clock_.begin(&StepTimes::data_wait);
  const HostBatch* batch = loader_.next();
  if (batch == nullptr) return std::nullopt;
  clock_.begin(&StepTimes::forward);
  next_count_ = batch->count;
  return uploader_.upload(*batch);
}

void TrainEpoch::enter(StepPhase phase) {
  switch (phase) {
    case StepPhase::kBackward:
      measure();
      return clock_.begin(&StepTimes::backward);
    case StepPhase::kCommunication:
      return clock_.begin(&StepTimes::communication);
    case StepPhase::kOptimizer:
      return clock_.begin(&StepTimes::optimizer);
    case StepPhase::kDone:
      clock_.stop();
      state_.epoch.spent = spent();
  }
}

// The designer's measuring point is after the forward pass, so a batch's time holds the previous
// backward.
void TrainEpoch::measure() {
  const Clock::time_point now = Clock::now();
  batch_seconds_ = seconds_between(measured_, now);
  measured_ = now;
  batch_count_ = next_count_;
  EpochSums& epoch = state_.epoch;
  epoch.images += batch_count_;
  epoch.weighted_seconds += batch_seconds_ * batch_count_;
  epoch.weighted_rate += batch_count_ / batch_seconds_ * batch_count_;
}

EpochTimes TrainEpoch::spent() {
  EpochTimes spent = before_;
  spent.seconds += seconds_between(begin_, Clock::now());
  spent.data_wait_seconds += loader_.wait_seconds();
  spent.parts += clock_.times();
  if (const auto now = state_.gradients.communication()) {
    spent.communication.summing += now->summing - communication_before_->summing;
    spent.communication.waiting += now->waiting - communication_before_->waiting;
  }
  return spent;
}

StepRecord TrainEpoch::timing() const {
  const EpochSums& epoch = state_.epoch;
  StepRecord record;
  record.epoch = plan_.epoch;
  record.num_epochs = plan_.schedule.epochs;
  record.learning_rate = learning_rate_;
  record.step = epoch.steps;
  record.num_steps = plan_.schedule.steps_per_epoch;
  record.elapsed_seconds = epoch.spent.seconds;
  record.data_wait_share = epoch.spent.data_wait_seconds / epoch.spent.seconds;
  if (epoch.images == 0) return record;
  record.batch_seconds = batch_seconds_;
  record.epoch_seconds = epoch.weighted_seconds / epoch.images;
  record.batch_images_per_second = batch_count_ / batch_seconds_;
  record.epoch_images_per_second = epoch.weighted_rate / epoch.images;
  return record;
}

StepRecord TrainEpoch::step_record() {
  EpochSums& epoch = state_.epoch;
  const Totals batch = epoch.metrics.batch(), so_far = epoch.metrics.totals();  // wait: then clocks
  epoch.spent = spent();
  StepRecord record = timing();
  record.times = epoch.spent.parts;
  record.batch = batch;
  record.so_far = so_far;
  return record;
}

EpochRecord TrainEpoch::finish() {
  const EpochSums& epoch = state_.epoch;
  EpochRecord record;
  record.train = epoch.metrics.totals();  // waits for the device, so before the clock is read
  state_.epoch.spent = spent();
  record.epoch = plan_.epoch;
  record.num_steps = epoch.steps;
  record.learning_rate = learning_rate_;
  record.times = epoch.spent.parts;
  record.train_seconds = epoch.spent.seconds;
  record.data_wait_seconds = epoch.spent.data_wait_seconds;
  record.average_images_per_second = epoch.images > 0 ? epoch.weighted_rate / epoch.images : 0;
  record.train_images_per_second = epoch.images / record.train_seconds;
  if (state_.gradients.communication()) record.communication = epoch.spent.communication;
  return record;
}

}  // namespace kiln
