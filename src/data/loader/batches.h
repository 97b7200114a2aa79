// Batches of an epoch's images, in order: from a dataset (batch_loader.h), or from a stream, whose
// length is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/loader/loader_threads.h"

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
  bool damaged = false;   // true: decoded in part, and used
  std::string name = {};  // of an image of a stream, where `sample` counts the epoch's images
};

// One thread.
class Batches {
 public:
  virtual ~Batches() = default;

  // The next batch, or nullptr after the last; valid until the next call. Rethrows a fault that is
  // not caused by an image (out of memory, a bug); Error kModuleOutOfMemory names the image for
  // which memory ran out.
  virtual const HostBatch* next() = 0;

  // Of a stream, between two steps: waits until all images of the next step have come. False: it
  // has ended before, or a stop signal came. Others have all images: true.
  virtual bool await_step() { return true; }
  // No step follows on this rank, because none does on another one.
  virtual void end_here() {}

  // Whether batches lack images only because a stop signal came while the data folder did not
  // answer. These are no faults; what was computed from such a batch is not to be kept.
  virtual bool was_cut_short() const = 0;

  // Faults of the images in the batches returned so far, in batch order; each call returns only new
  // ones.
  virtual std::vector<BadImage> take_faults() = 0;

  // Seconds spent waiting for batches.
  virtual double wait_seconds() const = 0;
};

}  // namespace kiln
