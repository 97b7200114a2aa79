// The loaders of a training run, and their cache between epochs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_config.h"
#include "data/loader/batch_loader.h"
#include "data/loader/device_uploader.h"
#include "data/loader/sampler.h"
#include "data/stream/stream_loader.h"
#include "run/inputs/sources.h"

namespace kiln {

// What is cached in memory between epochs.
struct CacheChoice {
  CacheKind train = CacheKind::kNone, valid = CacheKind::kNone;
  std::size_t train_limit_bytes = 0, valid_limit_bytes = 0;
  std::string reason;  // for the log: "decoded images, 12 MB of 2.10 GB"

  std::size_t limit_bytes() const {  // of the caches in use
    return (train == CacheKind::kNone ? 0 : train_limit_bytes) +
           (valid == CacheKind::kNone ? 0 : valid_limit_bytes);
  }
};

// How much memory one of `ranks_on_host` processes may use to cache images: its share of a quarter
// of what is available.
std::size_t cache_limit_bytes(int ranks_on_host);

// Applies --cache with at most `limit` bytes. With auto: decoded images, if all fit and the
// training pixels do not change between epochs; else file contents, if the training data is on
// network storage; else decoded validation images, if they fit; else nothing, since the page cache
// holds local files. Throws Error kUserError if the limit is too small for even one decoded image
// or file.
CacheChoice choose_cache(const DataConfig& config, const Sources& sources, const PixelPlan& pixels,
                         std::size_t limit);

// How a run loads its images.
struct LoadingPlan {
  int batch_size = 1;
  int accumulate = 1;  // batches per step
  std::uint64_t seed = 1;
  Sampling sample = Sampling::kShuffle;
  LoaderThreadCount threads;
  // Of streams.
  RecordOptions records;
  std::size_t shuffle_buffer = 1000;  // images
  SilenceLimits silence;
};

// All training images in the order of an epoch, which uses only the first images_per_epoch() of
// them.
std::vector<std::uint32_t> training_order(const SampleTable& samples, std::uint64_t seed,
                                          int epoch);

// The `num_images` images of an epoch, as --sample says: the first ones of training_order(), or
// equally many of every class.
SampledOrder epoch_order(const LoadingPlan& plan, const SampleTable& samples,
                         std::int64_t num_images, int epoch);

// The loaders of a training run: one thread pool, a cache per dataset, and two loaders per epoch,
// which start loading in advance.
class TrainingLoaders {
 public:
  // The first four must outlive the loaders, and the loaders everything they return. `warn` is
  // called, from any thread, if a data folder stops responding. `timeline` (or null) is passed to
  // the pool.
  TrainingLoaders(const LoadingPlan& plan, Sources& sources, const PixelPlan& pixels,
                  const Division& division, const CacheChoice& cache, const HostBatchLayout& layout,
                  FolderWatch::Warn warn, Timeline* timeline = nullptr);

  // This rank's batches of an epoch (from 1) after the first `steps_done` steps. Destroy a loader
  // before creating the next of its kind, which reuses its memory. Epochs of a stream must be
  // requested in order.
  std::unique_ptr<Batches> training(int epoch, int steps_done);
  std::unique_ptr<BatchLoader> validation(int epoch);
  // The given images of one of the two datasets, preprocessed as for validation and not cached.
  std::unique_ptr<BatchLoader> once(Dataset& set, std::vector<std::uint32_t> order, int batch_size);
  // Starts loading in advance as far as threads are free; training() and validation() then return
  // these loaders. A stream continues by itself.
  void begin_training(int epoch);
  void begin_validation(int epoch);
  // Call it between epochs: sets as many threads as the last epoch needed, unless the user gave a
  // number.
  void adapt_threads() { pool_.adapt(); }

  // Upper bound on the memory used for loading: the batches of one training and one validation
  // loader, read-ahead, decoders and caches.
  long long max_memory_bytes() const;

 private:
  BatchPlan plan(const TransformSpec& pixels, int epoch) const;
  std::unique_ptr<BatchLoader> open_training(int epoch, int steps_done);

  const LoadingPlan& plan_;
  Sources& sources_;
  const PixelPlan& pixels_;
  const Division& division_;
  const std::optional<Normalization> scaling_;
  // Batches held in memory: enough for every thread to have an image, with a small reserve, because
  // whole batches are large.
  const int num_slots_;
  const std::size_t cache_bytes_;
  LoaderThreads pool_;
  ImageCache train_cache_, valid_cache_;
  const FolderWatch::Warn warn_;
  std::unique_ptr<BatchLoader> next_training_, next_validation_;  // last, since they use the others
  std::optional<StreamLoader> stream_;                            // likewise
};

}  // namespace kiln
