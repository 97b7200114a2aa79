#include "train/epoch.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <optional>

#include "train/schedule/schedule.h"
#include "train/step_trace.h"

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

struct PartName {
  double StepTimes::*part;
  const char* name;
  bool computes;  // the device does
};
constexpr PartName kPartNames[] = {{&StepTimes::data_wait, "wait for images", false},
                                   {&StepTimes::forward, "forward", true},
                                   {&StepTimes::backward, "backward", true},
                                   {&StepTimes::communication, "wait for all-reduce", false},
                                   {&StepTimes::optimizer, "optimizer", true}};

const PartName& name_of(double StepTimes::*part) {
  return *std::find_if(std::begin(kPartNames), std::end(kPartNames),
                       [part](const PartName& row) { return row.part == part; });
}

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

class StepClock::Marks {
 public:
  explicit Marks(const c10::Device& device) : device_(device) {}

  void add(double StepTimes::*part) {
    Mark mark = mark_now(part);
    if (timeline_ != nullptr && !marks_.empty() && marks_.back().part != nullptr)
      timeline_->add(Timeline::kSteps, name_of(marks_.back().part).name, marks_.back().host,
                     mark.host);
    marks_.push_back(std::move(mark));
    settle();
  }

  // Counts what lies between marks that have been reached, and forgets them.
  void settle() {
    while (marks_.size() > 1 && marks_[1].reached()) {
      if (marks_[0].part != nullptr) count(marks_[0], marks_[1]);
      marks_.pop_front();
    }
  }

  const StepTimes& times() const { return times_; }

  void trace(Timeline* timeline) {
    Mark now = mark_now(nullptr);
    if (now.device) {
      now.device->synchronize();
      now.host = Clock::now();
    }
    settle();  // as before
    timeline_ = timeline;
    if (timeline != nullptr) anchor_ = std::move(now);
  }
  bool is_traced() const { return timeline_ != nullptr; }

 private:
  Mark mark_now(double StepTimes::*part) const {
    Mark mark{Clock::now(), std::nullopt, part};
    if (device_.is_cuda()) {
      mark.device.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
      mark.device->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
    }
    return mark;
  }

  // When the device passed it.
  Clock::time_point time_of(const Mark& mark) const {
    if (!mark.device) return mark.host;
    const std::chrono::duration<double> since(anchor_->seconds_until(mark));
    return anchor_->host + std::chrono::duration_cast<Clock::duration>(since);
  }

  void count(const Mark& begin, const Mark& end) {
    times_.*begin.part += begin.seconds_until(end);
    if (timeline_ == nullptr) return;
    const PartName& row = name_of(begin.part);
    // The host sees the sums of a CPU itself, but of a GPU's only that its stream waits for them.
    const bool waits_for_sums = begin.device && begin.part == &StepTimes::communication;
    if (!row.computes && !waits_for_sums) return;
    timeline_->add(row.computes ? Timeline::kDevice : Timeline::kSums, row.name, time_of(begin),
                   time_of(end));
  }

  c10::Device device_;
  Timeline* timeline_ = nullptr;
  std::optional<Mark> anchor_;  // since when; known of host and device
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

void StepClock::trace(Timeline* timeline) {
  marks_->trace(timeline);
}
bool StepClock::is_traced() const {
  return marks_->is_traced();
}

StepRates::StepRates(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin)
    : epoch_(epoch),
      is_queued_(is_queued),
      batches_per_step_(batches_per_step),
      seconds_before_(epoch.spent.seconds),
      begin_(begin),
      counted_(begin) {}

void StepRates::forwarded(int images, Time now) {
  epoch_.images += images;
  images_ += images;
  ++batches_;
  if (is_queued_) return;
  const int counting = images_;
  count(now);
  epoch_.weighted_seconds += batch_seconds_ * counting;
  epoch_.weighted_rate += batch_rate_ * counting;
  if (epoch_.images == 0) return;  // only bad images so far
  epoch_seconds_ = epoch_.weighted_seconds / epoch_.images;
  epoch_rate_ = epoch_.weighted_rate / epoch_.images;
}

void StepRates::waited(Time now) {
  if (!is_queued_ || batches_ == 0) return;
  count(now);
  const double elapsed = seconds_before_ + seconds_between(begin_, now);
  epoch_seconds_ = elapsed / (epoch_.steps * batches_per_step_);
  epoch_rate_ = epoch_.images / elapsed;
  epoch_.weighted_seconds = epoch_seconds_ * epoch_.images;
  epoch_.weighted_rate = epoch_rate_ * epoch_.images;
}

void StepRates::count(Time now) {
  const double seconds = seconds_between(counted_, now);
  batch_seconds_ = seconds / batches_;
  batch_rate_ = images_ / seconds;
  counted_ = now;
  images_ = batches_ = 0;
}

TrainEpoch::TrainEpoch(TrainState& state, Batches& loader, DeviceUploader& uploader,
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
      rates_(state.epoch, uploader.device().is_cuda(), plan.step.batches_per_step, begin_) {
  state_.model->train(true);
  batches_ = std::int64_t{state_.epoch.steps} * plan.step.batches_per_step;
  if (state_.epoch.steps > 0) learning_rate_ = rate_after(state_.epoch.steps - 1);
}

double TrainEpoch::rate_after(int steps) const {
  return rate(
      plan_.schedule,
      std::int64_t{plan_.epoch - 1 - plan_.epochs_before} * plan_.schedule.steps_per_epoch + steps);
}

bool TrainEpoch::step() {
  if (!goes_on()) return false;
  const double next_rate = rate_after(state_.epoch.steps);
  if (plan_.trace != nullptr) plan_.trace->before_step(clock_);
  if (!step_.run(*this, next_rate)) return false;
  if (plan_.trace != nullptr) plan_.trace->after_step(clock_);
  learning_rate_ = next_rate;
  return true;
}

std::optional<DeviceBatch> TrainEpoch::next() {
  clock_.begin(&StepTimes::data_wait);
  const HostBatch* batch = loader_.next();
  if (batch == nullptr) return std::nullopt;
  clock_.begin(&StepTimes::forward);
  batch_images_ = batch->count;
  const DeviceBatch there = uploader_.upload(*batch);
  ++batches_;
  return plan_.mix.mixes() && batch->count > 0 ? mix(there, *batch) : there;
}

// By the place of the batch in the epoch of a single process.
DeviceBatch TrainEpoch::mix(const DeviceBatch& batch, const HostBatch& host) const {
  const std::int64_t images =
      ((batches_ - 1) * plan_.step.num_ranks + plan_.rank) * plan_.step.batch_size;
  return mixed(batch, plan_.mix,
               {static_cast<std::uint64_t>(plan_.epoch), static_cast<std::uint64_t>(images / 2),
                host.places});
}

void TrainEpoch::enter(StepPhase phase) {
  switch (phase) {
    case StepPhase::kBackward:
      rates_.forwarded(batch_images_, Clock::now());
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

EpochTimes TrainEpoch::spent() {
  EpochTimes spent = before_;
  spent.seconds += seconds_between(begin_, Clock::now());
  spent.data_wait_seconds += loader_.wait_seconds();
  spent.parts += clock_.times();
  if (const auto now = state_.gradients.communication()) {
    spent.communication.summing += now->summing - communication_before_->summing;
    spent.communication.waiting += now->waiting - communication_before_->waiting;
    // The host does not wait for a GPU's sums; its stream does.
    if (uploader_.device().is_cuda()) spent.communication.waiting = spent.parts.communication;
  }
  return spent;
}

StepRecord TrainEpoch::timing() const {
  const EpochSums& epoch = state_.epoch;
  StepRecord record;
  record.epoch = plan_.epoch;
  record.num_epochs = plan_.epochs_before + plan_.schedule.epochs;
  record.learning_rate = learning_rate_;
  record.step = epoch.steps;
  record.num_steps = plan_.schedule.steps_per_epoch;
  record.elapsed_seconds = epoch.spent.seconds;
  record.data_wait_share = epoch.spent.data_wait_seconds / epoch.spent.seconds;
  record.batch_seconds = rates_.batch_seconds();
  record.epoch_seconds = rates_.epoch_seconds();
  record.batch_images_per_second = rates_.batch_rate();
  record.epoch_images_per_second = rates_.epoch_rate();
  return record;
}

StepRecord TrainEpoch::step_record() {
  EpochSums& epoch = state_.epoch;
  const Totals batch = epoch.metrics.batch(), so_far = epoch.metrics.totals();  // wait: then clocks
  rates_.waited(Clock::now());
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
  rates_.waited(Clock::now());
  state_.epoch.spent = spent();
  record.epoch = plan_.epoch;
  record.num_steps = epoch.steps;
  if (state_.scaler) record.skipped_steps = state_.scaler->values().skipped_steps;
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
