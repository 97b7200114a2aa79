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
#include "data/loader/image_cache.h"
#include "data/loader/loader_threads.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// [N, H, W, 3], as 8-bit values or floats. Images that could not be decoded are left out, which
// makes `count` smaller.
struct HostBatch {
  // Memory for the full batch; the first count * H * W * 3 values are valid.
  LoaderThreads::Buffer pixels;
  const float* floats() const { return reinterpret_cast<const float*>(pixels.get()); }
  std::vector<std::int64_t> labels;    // [count]
  std::vector<std::uint32_t> samples;  // [count] index into the samples
  std::vector<std::uint32_t> places;   // [count] in the batch before bad images were left out
  int count = 0;
  int nominal = 0;  // size of the batch before bad images were left out
};

struct BadImage {
  std::uint32_t sample = 0;
  std::string fault;
  bool damaged = false;  // true: decoded in part, and used
};

// Where the threads' time went; summed over threads, so it may exceed wall time.
struct LoaderTimes {
  double read_seconds = 0;  // by decoders and readers
  std::uint64_t bytes_read = 0;
  PipelineTimes pixels;
  double scale_seconds = 0;  // bytes to floats
};

class BatchLoader {
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
  ~BatchLoader();  // stops loading
  BatchLoader(BatchLoader&& other) noexcept;

  int num_batches() const;

  // The next batch, or nullptr after the last; valid until the next call. Rethrows a fault that is
  // not caused by an image (out of memory, a bug); Error kModuleOutOfMemory names the image for
  // which memory ran out.
  const HostBatch* next();

  // Whether batches lack images only because a stop signal came while the data folder did not
  // answer. These are no faults; what was computed from such a batch is not to be kept.
  bool was_cut_short() const;

  // Faults of the images in the batches returned so far, in batch order; each call returns only new
  // ones.
  std::vector<BadImage> take_faults();

  // Seconds spent waiting in next().
  double wait_seconds() const;
  LoaderTimes times() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
