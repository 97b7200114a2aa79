// Images -> batches of pixels: LoaderThreads read, decode and scale them ahead of the reader, which
// gets them in order.
//
// Memory is bounded: `num_slots` batches, plus what the thread pool uses (loader_threads.h).
// Results depend neither on the number of threads nor on the cache. One reader thread.
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

// Where the threads' time went; summed over threads, so it may exceed wall time.
struct LoaderTimes {
  double read_seconds = 0;  // by decoders and readers
  std::uint64_t bytes_read = 0;
  PipelineTimes pixels;
  double scale_seconds = 0;  // bytes to floats
};

class BatchLoader final : public Batches {
 public:
  // Batches of `batch_size` consecutive entries of `order` (indices into the samples of the set);
  // the last batch may be smaller.
  struct Plan {
    std::vector<std::uint32_t> order;
    // For each entry of `order`, how often the epoch has had the image before; empty: never.
    std::vector<std::uint32_t> repeats = {};
    int batch_size = 1;
    TransformSpec pixels;
    std::optional<Normalization> scaling;  // normalized floats; without it, bytes
    std::uint64_t seed = 0, epoch = 0;     // keys of the random augmentation
    int num_slots = 4;

    std::size_t batch_bytes() const;
  };

  // Begins to load. The set, the pool and the cache (nullptr: none; its samples are the set's, and
  // pixels in it were made by the same pixel plan) must outlive the loader. The set gets the hashes
  // of the images that could be decoded; loaders of one set are opened by one thread.
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
