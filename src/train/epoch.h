// One epoch of training, whose steps the caller runs; how its images are mixed; where the time of
// its steps goes, and the speed.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/random.h"
#include "base/timeline.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "record/training_record.h"
#include "train/recipe.h"
#include "train/state.h"
#include "train/step.h"

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

// Computes images per second from the moments at which a batch counts as trained. On a CPU that is
// after its forward pass, the designer's measuring point, so a batch's time includes the previous
// backward. On a GPU the host has then only queued the work, some steps ahead, so batches count
// when the host has next waited for the device. One thread.
class Throughput {
 public:
  using Time = Timeline::Time;
  // Keeps the averages in `epoch`, which may have begun before `begin`. `is_queued`: the device is
  // a GPU.
  Throughput(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin);

  // Call when the forward pass of a batch with `images` images has returned.
  void forwarded(int images, Time now);
  // Call when the host has waited for the device at the end of a step.
  void waited(Time now);

  // Rates of the batches counted last, and of the epoch up to then; 0 if none yet.
  double batch_seconds() const { return batch_seconds_; }
  double batch_images_per_second() const { return batch_images_per_second_; }
  double epoch_seconds() const { return epoch_seconds_; }
  double epoch_images_per_second() const { return epoch_images_per_second_; }

 private:
  int count(Time now);  // returns the images that count now

  EpochSums& epoch_;
  const bool is_queued_;
  const int batches_per_step_;
  const double seconds_before_;
  const Time begin_;
  Time counted_;
  int images_ = 0, batches_ = 0;  // trained since `counted_`
  double batch_seconds_ = 0, batch_images_per_second_ = 0;
  double epoch_seconds_ = 0, epoch_images_per_second_ = 0;
};

// Mixes training images in pairs. Mixup blends the two images, Zhang et al., arXiv:1710.09412;
// CutMix swaps a rectangle, Yun et al., arXiv:1905.04899. Each image then has both labels, weighted
// by their shares of the image. A pair consists of positions 2k and 2k + 1 of the global batch,
// ordered as in a single process. Its random draws depend only on the pair's number in the epoch.
// So any number of ranks mix the same way as one process, as long as each rank's batch size is
// even.

// A rectangle; bottom and right are exclusive. Empty: none.
struct Box {
  std::int64_t top = 0, bottom = 0, left = 0, right = 0;
};

// How one pair of images is mixed.
struct PairMix {
  double blend = 1;  // weight of an image's own pixels outside the box
  Box box;           // inside it, all pixels are the other image's
  double share = 1;  // share of the image's own label
};

// How the pair with this number in the epoch, from 0, is mixed, for images of this size. If both
// kinds are enabled, each has probability 1/2.
PairMix pair_mix(const MixPlan& plan, std::uint64_t epoch, std::uint64_t pair, std::int64_t height,
                 std::int64_t width);

// Draws from the distribution Beta(alpha, alpha).
double beta_draw(double alpha, RandomSequence& random);

// The position of a batch: the number of its first pair in the epoch, and the position of each
// image in the batch, ascending. An image whose partner is missing, because it could not be
// decoded, is not mixed.
struct BatchPlace {
  std::uint64_t epoch = 0, first_pair = 0;
  std::vector<std::uint32_t> places;
};

// How the images of the batch at this place are mixed, all of it: to be uploaded with the batch, so
// that mixing never waits for a GPU.
std::vector<float> mix_numbers(const MixPlan& plan, const BatchPlace& place, ImageSize size);

// Returns a mixed copy of the batch, whose `numbers` are mix_numbers(), with `other_labels` and
// `shares` set. `labels` has the label with the larger share, by which accuracy is counted.
DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan);

struct EpochPlan {
  int epoch = 1;          // from 1
  int num_epochs = 1;     // that the run trains
  int epochs_before = 0;  // earlier epochs that the schedule does not count
  SchedulePlan schedule;
  StepPlan step;
  MixPlan mix = {};
  int rank = 0, num_ranks = 1;  // of those that train; needed to mix images as one process would
  std::int64_t max_steps = 0;   // limit on the steps of a run's last epoch; 0: none
  StepTrace* trace = nullptr;   // must outlive the epoch; may be null
};

// What is printed about the last step.
struct PrintedStep {
  StepRecord record;
  int first_nonfinite_step = 0;
};

// One epoch of training, run step by step. Adds timing around the steps (step.h), with the
// designer's measuring point. The caller owns the loop and decides when to report and when to stop.
// One thread.
//
// Continues from `state.epoch` and keeps it up to date.
class TrainEpoch : private StepContext {
 public:
  // All arguments must outlive the epoch.
  TrainEpoch(TrainState& state, Batches& loader, DeviceUploader& uploader, const EpochPlan& plan);

  // Trains on the next batches, together with the other ranks. Returns false if none are left or
  // the plan's limit is reached.
  bool step();
  // Whether the plan's limit allows another step.
  bool wants_step() const { return plan_.max_steps == 0 || state_.epoch.steps < plan_.max_steps; }

  int steps_done() const { return state_.epoch.steps; }
  double learning_rate() const { return learning_rate_; }  // of the last step
  // The next three wait for the device, once each; their values are those of this rank. The first
  // step whose loss was not finite; 0 if none.
  int first_nonfinite_step() const { return state_.epoch.metrics.read().first_nonfinite_step; }
  PrintedStep printed_step();
  EpochRecord finish();  // `valid` stays empty
  // Time and rate as of the end of the last step, for a progress line. Never waits for the device.
  StepRecord timing() const;

 private:
  std::optional<DeviceBatch> next() override;
  void enter(StepPhase phase) override;
  double rate_of_step(int index_in_epoch) const;  // the learning rate; the first step is 0
  BatchPlace place_of(const HostBatch& batch) const;
  // For ImageModel::key_images().
  std::vector<std::uint64_t> keys_of(const HostBatch& batch) const;
  std::int64_t first_image() const;  // the last batch's first position in the epoch
  EpochTimes spent();                // on this epoch so far, including before a resume

  TrainState& state_;
  Batches& loader_;
  DeviceUploader& uploader_;
  EpochPlan plan_;
  TrainStep step_;
  StepClock clock_;
  const EpochTimes before_;  // spent on this epoch before this object was made
  const std::optional<CommunicationTime> communication_before_;
  const Throughput::Time begin_;
  Throughput throughput_;
  double learning_rate_ = 0;
  int batch_images_ = 0;      // images in the last batch
  std::int64_t batches_ = 0;  // batches that this rank has taken in the epoch
};

}  // namespace kiln
