// The batches of an epoch in order: from a dataset (batch_loader.h), or from a stream, whose length
// is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "data/loader/loader_threads.h"

namespace kiln {

// Pixels [N, H, W, 3] as bytes or floats. Images that could not be decoded are left out, which
// makes `count` smaller.
struct HostBatch {
  // Memory for the full batch; the first count * H * W * 3 values are valid.
  LoaderThreads::Buffer pixels;
  const float* floats() const { return reinterpret_cast<const float*>(pixels.get()); }
  std::vector<std::int64_t> labels;    // [count]
  std::vector<std::uint32_t> samples;  // [count] indices into the samples
  std::vector<std::uint32_t> places;   // [count] in the batch before bad images were left out
  int count = 0;
  int nominal = 0;  // size of the batch before bad images were left out
};

struct BadImage {
  std::uint32_t sample = 0;
  std::string fault;
  bool damaged = false;   // true: partly decoded, and used
  std::string name = {};  // for streams, where `sample` is the image's number in the epoch
};

void visit_fields(Is<BadImage> auto& image, auto&& field) {
  field("sample", image.sample);
  field("fault", image.fault);
  field("damaged", image.damaged);
  field("name", image.name);
}

// Use from one thread.
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

}  // namespace kiln
