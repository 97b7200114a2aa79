#include "run/training_loaders.h"

#include <utility>

#include "base/random.h"

namespace kiln {
namespace {

BatchLoader take(std::optional<BatchLoader>& begun) {
  BatchLoader taken = std::move(*begun);
  begun.reset();
  return taken;
}

}  // namespace

TrainingLoaders::TrainingLoaders(const TrainConfig& config, const TrainingInputs& inputs,
                                 int num_threads, const CacheChoice& cache, const HostForm& form)
    : config_(config),
      inputs_(inputs),
      scaling_(form.scaling),
      num_slots_(num_threads + 2),
      cache_bytes_(cache.train_limit_bytes + cache.valid_limit_bytes),
      team_({.num_decoders = num_threads,
             .read_ahead = config.data.read_ahead,
             .new_room = form.new_room}),
      train_cache_(cache.train, inputs.train.items.size(), cache.train_limit_bytes),
      valid_cache_(cache.valid, inputs.valid.items.size(), cache.valid_limit_bytes) {}

BatchLoader::Plan TrainingLoaders::plan(const PixelPlan& pixels, int epoch) const {
  return {.order = {},
          .batch_size = config_.optimization.batch_size,
          .pixels = pixels,
          .scaling = scaling_,
          .seed = static_cast<std::uint64_t>(config_.optimization.random_seed),
          .epoch = static_cast<std::uint64_t>(epoch),
          .num_slots = num_slots_};
}

BatchLoader TrainingLoaders::open_training(int epoch) {
  auto order = permutation(static_cast<std::uint32_t>(inputs_.train.items.size()),
                           {static_cast<std::uint64_t>(config_.optimization.random_seed),
                            static_cast<std::uint64_t>(epoch)});
  const RankShare& share = inputs_.train_share;
  order.resize(static_cast<std::size_t>(inputs_.steps_per_epoch * share.images_per_step()));
  BatchLoader::Plan wanted = plan(inputs_.pixels, epoch);
  wanted.order = training_share(order, share);
  return {inputs_.train, team_, std::move(wanted), &train_cache_};
}

BatchLoader TrainingLoaders::open_validation(int epoch) {
  const auto count = static_cast<std::uint32_t>(inputs_.valid.items.size());
  BatchLoader::Plan wanted = plan(inputs_.valid_pixels, epoch);
  wanted.order = validation_share(count, inputs_.valid_share);
  return {inputs_.valid, team_, std::move(wanted), &valid_cache_};
}

void TrainingLoaders::begin_training(int epoch) {
  next_training_.emplace(open_training(epoch));
}

void TrainingLoaders::begin_validation(int epoch) {
  next_validation_.emplace(open_validation(epoch));
}

BatchLoader TrainingLoaders::training(int epoch) {
  if (!next_training_) begin_training(epoch);
  return take(next_training_);
}

BatchLoader TrainingLoaders::validation(int epoch) {
  if (!next_validation_) begin_validation(epoch);
  return take(next_validation_);
}

long long TrainingLoaders::most_memory_bytes() const {
  const std::size_t batch_pair =
      plan(inputs_.pixels, 0).batch_bytes() + plan(inputs_.valid_pixels, 0).batch_bytes();
  const auto num_decoders = static_cast<std::size_t>(team_.num_decoders());
  const std::size_t bytes = static_cast<std::size_t>(num_slots_) * batch_pair +
                            LoaderTeam::kReadAheadBytes + num_decoders * LoaderTeam::kDecoderBytes +
                            cache_bytes_;
  return static_cast<long long>(bytes);
}

}  // namespace kiln
