// Turns images into batches of pixels. LoaderThreads read, decode and scale images ahead of the
// consumer, which receives them in order.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "data/dataset/dataset.h"
#include "data/loader/loader_threads.h"
#include "data/transform/image_pipeline.h"

namespace kiln {

// Pixels [N, H, W, 3] as bytes or floats. Images that could not be decoded are left out, which
// makes `count` smaller.
struct HostBatch {
  // Memory for the full batch; the first count * H * W * 3 values are valid.
  BatchBuffer pixels;
  const float* floats() const { return reinterpret_cast<const float*>(pixels.get()); }
  std::vector<std::int64_t> labels;    // [count]
  std::vector<std::uint32_t> samples;  // [count] indices into the samples
  std::vector<float> weights;          // [count] in the loss; empty: all 1
  std::vector<std::uint32_t> places;   // [count] in the batch before bad images were left out
  int count = 0;
  int nominal = 0;  // size of the batch before bad images were left out

  // Call it before the pixels are written again or freed: waits for who still reads them.
  void release() const {
    if (const auto wait = std::exchange(wait_for_reader, {})) wait();
  }
  mutable std::function<void()> wait_for_reader = {};  // does not throw; may be empty
};

struct BadImage {
  std::uint32_t sample = 0;
  std::string fault;
  bool damaged = false;   // true: partly decoded, and used
  std::string name = {};  // for streams, where `sample` is the image's number in the epoch
};

void visit_fields(Is<BadImage> auto& image, auto&& field) {
  fields(field, "sample", image.sample, "fault", image.fault, "damaged", image.damaged, "name",
         image.name);
}

// The batches of an epoch in order: from a dataset, or from a stream, whose length is unknown. Use
// from one thread.
class Batches {
 public:
  virtual ~Batches() = default;

  // The next batch, or nullptr after the last one; valid until the next call. Rethrows faults that
  // are not caused by an image (out of memory, a bug); Error kModuleOutOfMemory names the image for
  // which memory ran out.
  virtual const HostBatch* next() = 0;

  // For a stream, between two steps: waits until all images of the next step have arrived. False if
  // the stream ended first, or a stop signal arrived. Other sources have all images: true.
  virtual bool await_step() { return true; }
  // For a stream, after await_step() was true: a hash of those images of the epoch that have
  // arrived before the first step on every rank that takes a share of the same stream.
  virtual std::uint64_t beginning() const { return 0; }
  // Tells a stream that no further step follows on this rank, because none follows on another rank.
  virtual void end_here() {}

  // Whether batches lack images only because a stop signal arrived while the data folder did not
  // respond. These are not faults; results computed from such a batch must be discarded.
  virtual bool was_cut_short() const = 0;

  // Faults of the images in the batches returned so far, in batch order. Each call returns only new
  // ones.
  virtual std::vector<BadImage> take_faults() = 0;

  // Seconds spent waiting for batches.
  virtual double wait_seconds() const = 0;
};

// kBytes: files as stored. kDecoded: pixels at output size, before the operations that are drawn
// anew in every epoch; only for plans that allow it (can_be_kept()).
enum class CacheKind { kNone, kBytes, kDecoded };

// Keeps files or decoded pixels in memory for later epochs, up to a limit. Entries are never
// evicted; what does not fit is not kept. Thread-safe. If two threads keep the same sample, the
// first one wins.
class ImageCache {
  struct CachedImage {
    std::atomic<const char*> begin = nullptr;  // written last
    std::size_t size = 0;
  };

 public:
  // For samples 0 to num_items - 1. `limit_bytes` includes the cache's own tables.
  ImageCache(CacheKind kind, std::size_t num_items, std::size_t limit_bytes);

  // A limit large enough for `num_items` entries of `bytes_each` bytes.
  static std::size_t bytes_for(std::size_t num_items, std::size_t bytes_each);
  // The size of the table alone, which is allocated up front.
  static std::size_t table_bytes(std::size_t num_items) { return num_items * sizeof(CachedImage); }

  CacheKind kind() const { return kind_; }
  // The entry of a sample, valid as long as the cache; empty if not kept.
  std::string_view find(std::size_t sample) const;
  // Stores a copy if it fits.
  void keep(std::size_t sample, std::string_view what);

  std::size_t num_kept() const { return num_kept_; }
  std::size_t memory_bytes() const {
    const std::scoped_lock lock(mutex_);
    return memory_bytes_;
  }

 private:
  char* allocate(std::size_t size);  // call under mutex_; nullptr: it does not fit

  const CacheKind kind_;
  const std::size_t limit_bytes_;
  std::vector<CachedImage> entries_;
  std::atomic<std::size_t> num_kept_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t block_used_ = 0, block_size_ = 0, memory_bytes_ = 0;
};

// Time spent by the threads; summed over threads, so it may exceed wall time.
struct LoaderTimes {
  double read_seconds = 0;  // by decoders and reader threads
  std::uint64_t bytes_read = 0;
  PipelineTimes pixels;
  double scale_seconds = 0;  // bytes to floats
};

// Each batch is `batch_size` consecutive entries of `order` (indices into the samples of the
// set); the last batch may be smaller.
struct BatchPlan {
  std::vector<std::uint32_t> order = {};
  // For each entry of `order`, how often the image came earlier in the epoch; empty: never.
  std::vector<std::uint32_t> repeats = {};
  int batch_size = 1;
  TransformSpec pixels;
  std::optional<Normalization> scaling;  // if set, pixels are normalized floats; otherwise bytes
  std::uint64_t seed = 0, epoch = 0;     // keys of the random augmentation
  int num_slots = 4;

  std::size_t batch_bytes() const;
};

// The batches of a dataset. Memory is bounded: `num_slots` batches, plus what the thread pool uses
// (loader_threads.h). Results depend neither on the number of threads nor on the cache. Consume
// from one thread. The destructor stops loading.
class BatchLoader : public Batches {
 public:
  virtual int num_batches() const = 0;
  virtual LoaderTimes times() const = 0;
};

// Starts loading. The set, the pool and the cache must outlive the loader. `cache` may be nullptr;
// otherwise its samples are those of the set, and its pixels must have been made with the same
// TransformSpec. Stores the hashes of decodable images in the set; open all loaders of a set from
// one thread.
std::unique_ptr<BatchLoader> load_batches(Dataset& set, LoaderThreads& pool, BatchPlan plan,
                                          ImageCache* cache = nullptr);

}  // namespace kiln
