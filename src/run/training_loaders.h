// The loaders of a training run, and what they keep in memory from one epoch to the next.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "config/run_config.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "data/loader/image_cache.h"
#include "run/training_inputs.h"

namespace kiln {

// What of the images is kept in memory from one epoch to the next.
struct CacheChoice {
  CacheKind train = CacheKind::kNone, valid = CacheKind::kNone;
  std::size_t train_limit_bytes = 0, valid_limit_bytes = 0;
  std::string reason;  // for the log: "decoded images, 12 MB of 2.10 GB"
};

// --cache and --cache-bytes for one of `ranks_on_host` processes that share a host's memory. With
// auto: decoded images where all of them fit and every epoch takes the same pixels; else the stored
// bytes where files come over a network; else nothing, as the system keeps files of local disks.
// Error kUserError: the limit that was asked for holds not even one decoded image, or one file.
CacheChoice choose_cache(const DataConfig& config, const TrainingInputs& inputs, int ranks_on_host);

// The loaders of a training run: one pool of threads, a cache for each data set, and for each epoch
// two loaders, which begin to load before they are wanted.
class TrainingLoaders {
 public:
  // `inputs` must outlive the loaders, and these what they give out.
  TrainingLoaders(const TrainConfig& config, const TrainingInputs& inputs, int num_threads,
                  const CacheChoice& cache, const HostBatchLayout& layout);

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
  BatchLoader::Plan plan(const TransformSpec& pixels, int epoch) const;
  BatchLoader open_training(int epoch);
  BatchLoader open_validation(int epoch);

  const TrainConfig& config_;
  const TrainingInputs& inputs_;
  const std::optional<Normalization> scaling_;
  const int num_slots_;
  const std::size_t cache_bytes_;
  LoaderThreads pool_;
  ImageCache train_cache_, valid_cache_;
  std::optional<BatchLoader> next_training_, next_validation_;  // last: they use the others
};

}  // namespace kiln
