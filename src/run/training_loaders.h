// The loaders of a training run: one team of threads, a cache for each data set, and for each epoch
// two loaders, which begin to load before they are wanted.
#pragma once

#include <optional>

#include "data/batch_loader.h"
#include "data/device_feed.h"
#include "run/cache_choice.h"
#include "run/training_inputs.h"

namespace kiln {

class TrainingLoaders {
 public:
  // `inputs` must outlive the loaders, and these what they give out.
  TrainingLoaders(const TrainConfig& config, const TrainingInputs& inputs, int num_threads,
                  const CacheChoice& cache, const HostForm& form);

  // This rank's batches of an epoch, from 1. A loader is to be gone before the next of its kind
  // begins: its memory goes on to it.
  BatchLoader training(int epoch);
  BatchLoader validation(int epoch);
  // Begins with what the threads have time for; training() and validation() give it out.
  void begin_training(int epoch);
  void begin_validation(int epoch);

  // Memory that loading takes at most: the batches of one training and one validation loader, bytes
  // read ahead, the decoders' own, and the caches.
  long long most_memory_bytes() const;

 private:
  BatchLoader::Plan plan(const PixelPlan& pixels, int epoch) const;
  BatchLoader open_training(int epoch);
  BatchLoader open_validation(int epoch);

  const TrainConfig& config_;
  const TrainingInputs& inputs_;
  const std::optional<Normalization> scaling_;
  const int num_slots_;
  const std::size_t cache_bytes_;
  LoaderTeam team_;
  ImageCache train_cache_, valid_cache_;
  std::optional<BatchLoader> next_training_, next_validation_;  // last: they use the others
};

}  // namespace kiln
