// Images -> batches of pixels, read, decoded and scaled by a LoaderThreads ahead of the reader,
// handed out in order.
//
// Memory is bounded: `num_slots` batches, and what the pool takes (loader_team.h). Results depend
// neither on the number of threads nor on the cache. One reader thread.
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

// [N, H, W, 3], in 8 bits or as floats; images that could not be decoded are left out and `count`
// is smaller.
struct HostBatch {
  // Buffer for the whole batch; the first count * H * W * 3 numbers are valid.
  LoaderThreads::Buffer pixels;
  const float* floats() const { return reinterpret_cast<const float*>(pixels.get()); }
  std::vector<std::int64_t> labels;    // [count]
  std::vector<std::uint32_t> samples;  // [count] index into the samples
  int count = 0;
  int nominal = 0;  // images the batch was meant to hold
};

struct BadImage {
  std::uint32_t sample = 0;
  std::string fault;
  bool damaged = false;  // true: decoded as far as it goes, and used
};

// Where the threads' time went; summed over threads, so it may exceed the time that passed.
struct LoaderTimes {
  double read_seconds = 0;  // by decoders and readers
  std::uint64_t bytes_read = 0;
  PipelineTimes pixels;
  double scale_seconds = 0;  // bytes to floats
};

class BatchLoader {
 public:
  // Batches of `batch_size` consecutive entries of `order` (indices into the samples of the set);
  // the last may be shorter.
  struct Plan {
    std::vector<std::uint32_t> order;
    int batch_size = 1;
    TransformSpec pixels;
    std::optional<Normalization> scaling;  // batches of floats, scaled like this; else of bytes
    std::uint64_t seed = 0, epoch = 0;     // of what the pixel plan draws
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

  // The next batch, or nullptr after the last. The batch stays valid until the next call. A fault
  // that is not one image's (out of memory, a bug) is rethrown here; Error kModuleOutOfMemory names
  // the image that there was no memory for.
  const HostBatch* next();

  // Faults of the images in the batches handed out so far, in batch order; each call returns only
  // new ones.
  std::vector<BadImage> take_faults();

  // Seconds the reader has waited in next().
  double wait_seconds() const;
  LoaderTimes times() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
