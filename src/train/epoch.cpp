#include "train/epoch.h"

#include <torch/torch.h>

#include "model/loss.h"

namespace kiln {
namespace {

double seconds_between(std::chrono::steady_clock::time_point begin,
                       std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

TrainEpoch::TrainEpoch(TrainState& state, BatchLoader& loader, DeviceFeed& feed,
                       const EpochPlan& plan)
    : state_(state),
      loader_(loader),
      feed_(feed),
      plan_(plan),
      metrics_(feed.device()),
      clock_(feed.device()),
      communication_before_(state.gradients.communication()),
      begin_(Clock::now()),
      measured_(begin_) {
  state_.model->train(true);
}

bool TrainEpoch::step() {
  const HostBatch* batch = next_batch();
  if (batch == nullptr) return false;
  ++step_;
  for (int i = 1; i < plan_.batches_per_step; ++i) {
    train_on(*batch);
    batch = next_batch();
  }
  state_.gradients.reduce_on_next_backward();
  train_on(*batch);
  clock_.begin(&StepTimes::communication);
  state_.gradients.wait();
  clock_.begin(&StepTimes::optimizer);
  const bool alone_and_empty =
      plan_.num_ranks == 1 && plan_.batches_per_step == 1 && batch->count < plan_.smallest_batch;
  if (!alone_and_empty) state_.optimizer.step(plan_.learning_rate);
  state_.gradients.zero();
  clock_.stop();
  return true;
}

const HostBatch* TrainEpoch::next_batch() {
  clock_.begin(&StepTimes::data_wait);
  return loader_.next();
}

// Adds to the gradients: the mean over all images of the step, of all ranks and batches.
void TrainEpoch::train_on(const HostBatch& host) {
  if (host.count < plan_.smallest_batch && !plan_.train_on_empty_batches) return;
  clock_.begin(&StepTimes::forward);
  const DeviceBatch batch = feed_.put(host);
  const at::Tensor logits = state_.model->forward(batch.images);
  const std::int64_t images = std::int64_t{host.nominal} * plan_.num_ranks * plan_.batches_per_step;
  const at::Tensor loss = cross_entropy(logits, batch.labels, images);
  measure(host.count);
  clock_.begin(&StepTimes::backward);
  loss.backward();
  metrics_.add(logits, batch.labels, loss.detach() * images, step_);
}

// The designer's measuring point is after the forward pass, so a batch's time holds the previous
// backward.
void TrainEpoch::measure(int count) {
  const Clock::time_point now = Clock::now();
  batch_seconds_ = seconds_between(measured_, now);
  measured_ = now;
  batch_count_ = count;
  images_ += count;
  weighted_seconds_ += batch_seconds_ * count;
  weighted_rate_ += count / batch_seconds_ * count;
}

StepRecord TrainEpoch::timing() const {
  StepRecord record;
  record.epoch = plan_.epoch;
  record.learning_rate = plan_.learning_rate;
  record.num_epochs = plan_.num_epochs;
  record.step = step_;
  record.num_steps = loader_.num_batches() / plan_.batches_per_step;
  record.elapsed_seconds = seconds_between(begin_, Clock::now());
  record.data_wait_share = loader_.wait_seconds() / record.elapsed_seconds;
  if (images_ == 0) return record;
  record.batch_seconds = batch_seconds_;
  record.epoch_seconds = weighted_seconds_ / images_;
  record.batch_images_per_second = batch_count_ / batch_seconds_;
  record.epoch_images_per_second = weighted_rate_ / images_;
  return record;
}

StepRecord TrainEpoch::step_record() {
  StepRecord record = timing();
  record.times = clock_.times();
  record.batch = metrics_.batch();
  record.so_far = metrics_.totals();
  return record;
}

EpochRecord TrainEpoch::finish() {
  EpochRecord record;
  record.epoch = plan_.epoch;
  record.num_steps = step_;
  record.learning_rate = plan_.learning_rate;
  record.train = metrics_.totals();
  record.times = clock_.times();
  record.train_seconds = seconds_between(begin_, Clock::now());
  record.data_wait_seconds = loader_.wait_seconds();
  record.average_images_per_second = images_ > 0 ? weighted_rate_ / images_ : 0;
  record.train_images_per_second = images_ / record.train_seconds;
  if (const auto now = state_.gradients.communication())
    record.communication = CommunicationTime{now->summing - communication_before_->summing,
                                             now->waiting - communication_before_->waiting};
  return record;
}

}  // namespace kiln
