// Image files -> batches of pixels, decoded by worker threads ahead of the reader, handed out in
// order.
//
// Memory is bounded by `num_slots` batches. Results do not depend on the number of threads. One
// reader thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/image_set.h"
#include "data/pixel_plan.h"

namespace kiln {

// [N, H, W, 3] in 8 bits; images that could not be decoded are left out and `count` is smaller.
struct HostBatch {
  std::vector<std::uint8_t>
      pixels;  // capacity of the whole batch; the first count * H * W * 3 are valid
  std::vector<std::int64_t> labels;  // [count]
  std::vector<std::uint32_t> items;  // [count] index into the items
  int count = 0;
  int nominal = 0;  // images the batch was meant to hold
};

struct BadImage {
  std::uint32_t item = 0;
  std::string fault;
  bool damaged = false;  // true: decoded as far as it goes, and used
};

class BatchLoader {
 public:
  // Batches of `batch_size` consecutive entries of `order` (indices into the items of the set); the
  // last may be shorter unless `drop_last`. The set must outlive the loader.
  struct Plan {
    std::vector<std::uint32_t> order;
    int batch_size = 1;
    bool drop_last = false;
    PixelPlan pixels;
    std::uint64_t seed = 0, epoch = 0;  // of what is drawn for an image; its number is its item's
    int num_threads = 1;
    int num_slots = 4;
  };

  BatchLoader(const ImageSet& set, Plan plan);
  ~BatchLoader();  // stops the workers

  int num_batches() const;

  // The next batch, or nullptr after the last. The batch stays valid until the next call. A fault
  // that is not one image's (out of memory, a bug) is rethrown here.
  const HostBatch* next();

  // Faults of the images in the batches handed out so far, in batch order; each call returns only
  // new ones.
  std::vector<BadImage> take_faults();

  // Seconds the reader has waited in next().
  double wait_seconds() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
