#include "train/epoch.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numbers>
#include <string>
#include <utility>

#include "train/schedule/catalogue.h"

namespace kiln {
namespace {

double seconds_between(Throughput::Time begin, Throughput::Time end) {
  return std::chrono::duration<double>(end - begin).count();
}

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

// A uniform draw from the open interval (0, 1).
double inner_uniform(RandomSequence& random) {
  return (static_cast<double>(random.next() >> 12) + 0.5) * 0x1.0p-52;
}

double normal_draw(RandomSequence& random) {
  const double radius = std::sqrt(-2 * std::log(inner_uniform(random)));
  return radius * std::cos(2 * std::numbers::pi * inner_uniform(random));
}

// The logarithm of a draw from the Gamma distribution; the draw itself may underflow a double.
// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000.
double log_gamma_draw(double shape, RandomSequence& random) {
  if (shape < 1) {
    const double power = std::log(inner_uniform(random)) / shape;
    return log_gamma_draw(shape + 1, random) + power;
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal_draw(random), root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    if (std::log(inner_uniform(random)) < x * x / 2 + d - d * v + d * std::log(v))
      return std::log(d * v);
  }
}

// A box of about 1 - lambda of the image's area, centered on a random pixel and clipped to the
// image.
Box box_draw(double lambda, std::int64_t height, std::int64_t width, RandomSequence& random) {
  const double half = std::sqrt(1 - lambda) / 2;
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
  const auto up = static_cast<std::int64_t>(half * static_cast<double>(height));
  const auto aside = static_cast<std::int64_t>(half * static_cast<double>(width));
  return {std::max<std::int64_t>(y - up, 0), std::min(y + up, height),
          std::max<std::int64_t>(x - aside, 0), std::min(x + aside, width)};
}

// The rows of mix_numbers(), each with one number per image. The partner is an index into the
// batch. Places and pixels are exact in float32, up to 2^24.
enum Row : std::int64_t { kPartner, kBlend, kShare, kTop, kBottom, kLeft, kRight, kNumRows };
static_assert(kNumRows <= DeviceUploader::kMaxNumbers);

// A mask of the pixels inside the box of their image, [N, 1, H, W]. `mix` has the rows.
at::Tensor inside_boxes(const at::Tensor& mix, const at::Tensor& images) {
  const auto between = [&](std::int64_t size, Row begin, Row end) {
    const at::Tensor at = at::arange(size, mix.options()).unsqueeze(0);
    return at.ge(mix[begin].unsqueeze(1)).logical_and(at.lt(mix[end].unsqueeze(1)));  // [N, size]
  };
  const at::Tensor rows = between(images.size(2), kTop, kBottom);
  const at::Tensor columns = between(images.size(3), kLeft, kRight);
  return rows.unsqueeze(2).logical_and(columns.unsqueeze(1)).unsqueeze(1);
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
  return seconds_between(host, later.host);
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

Throughput::Throughput(EpochSums& epoch, bool is_queued, int batches_per_step, Time begin)
    : epoch_(epoch),
      is_queued_(is_queued),
      batches_per_step_(batches_per_step),
      seconds_before_(epoch.spent.seconds),
      begin_(begin),
      counted_(begin) {}

void Throughput::forwarded(int images, Time now) {
  epoch_.images += images;
  images_ += images;
  ++batches_;
  if (is_queued_) return;
  const int counted = count(now);
  epoch_.weighted_seconds += batch_seconds_ * counted;
  epoch_.weighted_rate += batch_images_per_second_ * counted;
  if (epoch_.images == 0) return;  // only bad images so far
  epoch_seconds_ = epoch_.weighted_seconds / epoch_.images;
  epoch_images_per_second_ = epoch_.weighted_rate / epoch_.images;
}

void Throughput::waited(Time now) {
  if (!is_queued_ || batches_ == 0) return;
  count(now);
  const double elapsed = seconds_before_ + seconds_between(begin_, now);
  epoch_seconds_ = elapsed / (epoch_.steps * batches_per_step_);
  epoch_images_per_second_ = epoch_.images / elapsed;
  epoch_.weighted_seconds = epoch_seconds_ * epoch_.images;
  epoch_.weighted_rate = epoch_images_per_second_ * epoch_.images;
}

int Throughput::count(Time now) {
  const double seconds = seconds_between(counted_, now);
  batch_seconds_ = seconds / batches_;
  batch_images_per_second_ = images_ / seconds;
  counted_ = now;
  batches_ = 0;
  return std::exchange(images_, 0);
}

double beta_draw(double alpha, RandomSequence& random) {
  const double a = log_gamma_draw(alpha, random), b = log_gamma_draw(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

PairMix pair_mix(const MixPlan& plan, std::uint64_t epoch, std::uint64_t pair, std::int64_t height,
                 std::int64_t width) {
  constexpr std::uint64_t kPurpose = 0x6d69786564;  // "mixed"
  RandomSequence random{kPurpose, plan.seed, epoch, pair};
  const bool is_either = plan.mixup > 0 && plan.cutmix > 0;
  const bool cuts = is_either ? random.uniform() < 0.5 : plan.cutmix > 0;
  const double lambda = beta_draw(cuts ? plan.cutmix : plan.mixup, random);
  if (!cuts) return {lambda, {}, lambda};
  const Box box = box_draw(lambda, height, width, random);
  const auto area = static_cast<double>((box.bottom - box.top) * (box.right - box.left));
  return {1, box, 1 - area / static_cast<double>(height * width)};
}

std::vector<float> mix_numbers(const MixPlan& plan, const BatchPlace& place, ImageSize size) {
  const std::vector<std::uint32_t>& places = place.places;
  const std::size_t count = places.size();
  std::vector<float> numbers(kNumRows * count);
  const auto set = [&](std::size_t image, std::size_t partner, const PairMix& mix) {
    const double column[kNumRows] = {static_cast<double>(partner),
                                     mix.blend,
                                     mix.share,
                                     static_cast<double>(mix.box.top),
                                     static_cast<double>(mix.box.bottom),
                                     static_cast<double>(mix.box.left),
                                     static_cast<double>(mix.box.right)};
    for (std::size_t row = 0; row < kNumRows; ++row)
      numbers[row * count + image] = static_cast<float>(column[row]);
  };
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 >= count || places[i] % 2 == 1 || places[i + 1] != places[i] + 1) {
      set(i, i, {});  // no partner
      continue;
    }
    const PairMix mix =
        pair_mix(plan, place.epoch, place.first_pair + places[i] / 2, size.height, size.width);
    set(i, i + 1, mix);
    set(i + 1, i, mix);
    ++i;
  }
  return numbers;
}

DeviceBatch mixed(const DeviceBatch& batch, const MixPlan& plan) {
  const c10::AutoGradMode no_grad(false);
  const at::Tensor mix = batch.numbers.view({kNumRows, -1});
  const at::Tensor partners = mix[kPartner].to(at::kLong);
  const at::Tensor theirs = batch.images.index_select(0, partners);
  at::Tensor images = batch.images;
  if (plan.mixup > 0) {
    const at::Tensor blends = mix[kBlend].to(images.scalar_type()).view({-1, 1, 1, 1});
    images = images * blends + theirs * (1 - blends);
  }
  if (plan.cutmix > 0) images = at::where(inside_boxes(mix, images), theirs, images);
  const at::Tensor labels = batch.labels, others = labels.index_select(0, partners);
  const at::Tensor shares = mix[kShare], is_first = shares.ge(0.5);
  DeviceBatch out{images.contiguous(at::MemoryFormat::ChannelsLast),
                  at::where(is_first, labels, others), at::where(is_first, others, labels),
                  at::where(is_first, shares, 1 - shares)};
  if (batch.weights.defined()) {
    const at::Tensor weights = batch.weights, their_weights = weights.index_select(0, partners);
    out.weights = at::where(is_first, weights, their_weights);
    out.other_weights = at::where(is_first, their_weights, weights);
  }
  return out;
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
  if (!plan_.mix.mixes() || batch->count == 0) return uploader_.upload(*batch);
  const std::vector<float> numbers = mix_numbers(plan_.mix, place_of(*batch), uploader_.size());
  return mixed(uploader_.upload(*batch, numbers), plan_.mix);
}

// Pairs are numbered by the batch's position in the epoch of a single process, so the mix does not
// depend on the number of ranks.
BatchPlace TrainEpoch::place_of(const HostBatch& batch) const {
  return {static_cast<std::uint64_t>(plan_.epoch), static_cast<std::uint64_t>(first_image() / 2),
          batch.places};
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

// Likewise: by the image's position in the epoch.
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
  StepRecord record;
  record.epoch = plan_.epoch;
  record.num_epochs = plan_.num_epochs;
  record.learning_rate = learning_rate_;
  record.step = epoch.steps;
  record.num_steps = plan_.schedule.steps_per_epoch;
  record.elapsed_seconds = epoch.spent.seconds;
  record.data_wait_share = epoch.spent.data_wait_seconds / epoch.spent.seconds;
  record.batch_seconds = throughput_.batch_seconds();
  record.epoch_seconds = throughput_.epoch_seconds();
  record.batch_images_per_second = throughput_.batch_images_per_second();
  record.epoch_images_per_second = throughput_.epoch_images_per_second();
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
