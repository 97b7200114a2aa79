#include "train/epoch.h"

#include <chrono>
#include <utility>

#include "base/random.h"
#include "train/schedule/catalogue.h"

namespace kiln {

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
      begin_(Timeline::Clock::now()),
      throughput_(state.epoch, uploader.device().is_cuda(), plan.step.batches_per_step, begin_) {
  state_.model->train(true);
  batches_ = std::int64_t{state_.epoch.steps} * plan.step.batches_per_step;
  if (state_.epoch.steps > 0) learning_rate_ = rate_of_step(state_.epoch.steps - 1);
}

double TrainEpoch::rate_of_step(int index_in_epoch) const {
  const std::int64_t epochs = plan_.epoch - 1 - plan_.epochs_before;
  return rate(plan_.schedule, epochs * plan_.schedule.steps_per_epoch + index_in_epoch);
}

bool TrainEpoch::step() {
  if (!wants_step()) return false;
  const double next_rate = rate_of_step(state_.epoch.steps);
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
  ++batches_;
  state_.model->key_images(keys_of(*batch));
  const bool mixes = plan_.mix.mixes() && batch->count > 0;
  // Pairs are numbered by the batch's position in the epoch of a single process, so the mix does
  // not depend on the number of ranks.
  DeviceBatch seen = uploader_.upload(
      *batch, mixes ? mix_numbers(plan_.mix, static_cast<std::uint64_t>(plan_.epoch),
                                  first_image() / 2, batch->places, uploader_.size())
                    : std::vector<float>());
  if (mixes) seen = mixed(seen, plan_.mix);
  plan_.show(seen);
  return seen;
}

std::int64_t TrainEpoch::first_image() const {
  return ((batches_ - 1) * plan_.num_ranks + plan_.rank) * plan_.step.batch_size;
}

void TrainEpoch::enter(StepPhase phase) {
  switch (phase) {
    case StepPhase::kBackward:
      throughput_.forwarded(batch_images_, Timeline::Clock::now());
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

// By the image's position in the epoch of a single process.
std::vector<std::uint64_t> TrainEpoch::keys_of(const HostBatch& batch) const {
  constexpr std::uint64_t kPurpose = 0x696d616765;  // "image"
  std::vector<std::uint64_t> keys;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count); ++i) {
    const std::uint64_t place = i < batch.places.size() ? batch.places[i] : i;
    keys.push_back(RandomSequence{kPurpose, state_.random_seed,
                                  static_cast<std::uint64_t>(plan_.epoch),
                                  static_cast<std::uint64_t>(first_image()) + place}
                       .next());
  }
  return keys;
}

EpochTimes TrainEpoch::spent() {
  EpochTimes spent = before_;
  spent.seconds += std::chrono::duration<double>(Timeline::Clock::now() - begin_).count();
  spent.data_wait_seconds += loader_.wait_seconds();
  spent.parts += clock_.times();
  // A GPU waits when its stream does: the host waits for the next images, say, while it computes.
  const bool is_gpu = uploader_.device().is_cuda();
  if (is_gpu) spent.data_wait_seconds = spent.parts.data_wait;
  if (const auto now = state_.gradients.communication()) {
    spent.communication.summing += now->summing - communication_before_->summing;
    spent.communication.waiting += now->waiting - communication_before_->waiting;
    if (is_gpu) spent.communication.waiting = spent.parts.communication;
  }
  return spent;
}

StepRecord TrainEpoch::timing() const {
  const EpochSums& epoch = state_.epoch;
  StepRecord record = throughput_.rates();
  record.epoch = plan_.epoch;
  record.num_epochs = plan_.num_epochs;
  record.learning_rate = learning_rate_;
  record.step = epoch.steps;
  record.num_steps = plan_.schedule.steps_per_epoch;
  record.elapsed_seconds = epoch.spent.seconds;
  record.data_wait_share = epoch.spent.data_wait_seconds / epoch.spent.seconds;
  return record;
}

PrintedStep TrainEpoch::printed_step() {
  EpochSums& epoch = state_.epoch;
  // Reading the metrics waits for the device, so read the clocks only afterwards.
  const MetricSums::Values values = epoch.metrics.read();
  throughput_.waited(Timeline::Clock::now());
  epoch.spent = spent();
  StepRecord record = timing();
  record.times = epoch.spent.parts;
  record.batch = values.batch;
  record.so_far = values.totals;
  return {record, values.first_nonfinite_step};
}

EpochRecord TrainEpoch::finish() {
  const EpochSums& epoch = state_.epoch;
  EpochRecord record;
  // Reading the metrics waits for the device, so read the clocks only afterwards.
  record.train = epoch.metrics.totals();
  throughput_.waited(Timeline::Clock::now());
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
