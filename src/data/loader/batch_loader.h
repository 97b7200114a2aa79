// Turns images into batches of pixels. LoaderThreads read, decode and scale images ahead of the
// consumer, which receives them in order.
//
// Memory is bounded: `num_slots` batches, plus what the thread pool uses (loader_threads.h).
// Results depend neither on the number of threads nor on the cache. Consume from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset/dataset.h"
#include "data/loader/batches.h"
#include "data/loader/image_cache.h"
#include "data/loader/loader_threads.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// Time spent by the threads; summed over threads, so it may exceed wall time.
struct LoaderTimes {
  double read_seconds = 0;  // by decoders and reader threads
  std::uint64_t bytes_read = 0;
  PipelineTimes pixels;
  double scale_seconds = 0;  // bytes to floats
};

class BatchLoader final : public Batches {
 public:
  // Each batch is `batch_size` consecutive entries of `order` (indices into the samples of the
  // set); the last batch may be smaller.
  struct Plan {
    std::vector<std::uint32_t> order;
    // For each entry of `order`, how often the image came earlier in the epoch; empty: never.
    std::vector<std::uint32_t> repeats = {};
    int batch_size = 1;
    TransformSpec pixels;
    std::optional<Normalization> scaling;  // if set, pixels are normalized floats; otherwise bytes
    std::uint64_t seed = 0, epoch = 0;     // keys of the random augmentation
    int num_slots = 4;

    std::size_t batch_bytes() const;
  };

  // Starts loading. The set, the pool and the cache must outlive the loader. `cache` may be
  // nullptr; otherwise its samples are those of the set, and its pixels must have been made with
  // the same TransformSpec. Stores the hashes of decodable images in the set; open all loaders of a
  // set from one thread.
  BatchLoader(Dataset& set, LoaderThreads& pool, Plan plan, ImageCache* cache = nullptr);
  ~BatchLoader() override;  // stops loading
  BatchLoader(BatchLoader&& other) noexcept;

  int num_batches() const;

  const HostBatch* next() override;
  bool was_cut_short() const override;
  std::vector<BadImage> take_faults() override;
  double wait_seconds() const override;
  LoaderTimes times() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
